"""Readers of tables and of text, hashes and downloads."""
import hashlib
import http.server
import math
import threading

import numpy as np
import pytest

import volta
from volta.data import Alphabet, CharacterDataset, CSVDataset, CSVStream, DataLoader, download
from volta.errors import ArgumentError, DatasetError

TABLE = """size, colour ,price,sold
1.5,red,10,yes
,blue,2e3,no
-3,"red",NA,yes
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def lists(sample):
    return [v.tolist() for v in sample]


def test_columns_of_numbers_and_categories(table):
    data = CSVDataset(table, target="sold", categorical=["colour", "sold"])
    assert len(data) == 3 and data.categories == {"colour": ["blue", "red"], "sold": ["no", "yes"]}
    assert data.numbers == ["size", "price"] and data.labels == ["colour"]
    assert lists(data[0]) == [[1.5, 10], [1], 1] and [v.dtype for v in data[0]] == [np.float32, np.int64, np.int64]
    assert math.isnan(data[1][0][0]) and math.isnan(data[2][0][1]) and data[1][0][1] == 2000
    numbers, codes, target = next(iter(DataLoader(data, 3)))
    assert numbers.dtype is volta.float32 and numbers.shape == (3, 2) and codes.tolist() == [[1], [0], [1]] and target.tolist() == [1, 0, 1]
    other = CSVDataset(table, ["colour"], categorical={"colour": ["red", "green", "blue"]}, dtype=volta.float64)
    assert [lists(s) for s in other] == [[[0]], [[2]], [[0]]]
    gaps = CSVDataset(table, ["price"], "colour", categorical=["colour"], missing_values=["NA", "red"], dtype="float64")
    assert [v[1].item() for v in gaps] == [-1, 0, -1] and gaps[1][0].dtype == np.float64


def test_without_a_header_and_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("volta.data.tables._ROWS", 7)
    path, values = tmp_path / "t.tsv", np.arange(60.0).reshape(20, 3)
    path.write_text("\n".join("\t".join(map(str, row)) for row in values) + "\n\n")
    data = CSVDataset(path, target=2, header=False, delimiter="\t")
    assert np.array_equal(data.tensors[0], values[:, :2]) and np.array_equal(data.tensors[1], values[:, 2])
    stream = CSVStream(path, target=2, header=False, delimiter="\t")
    assert [lists(s) for s in stream] == [lists(s) for s in data]
    for workers in (2, 3):
        found = sorted(y.item() for _, y in DataLoader(stream, None, num_workers=workers))
        assert found == values[:, 2].tolist()


@pytest.mark.parametrize("options, text", [
    ({"columns": ["colour"]}, "row 1, column 'colour' is no number: 'red'"),
    ({"columns": ["weight"]}, "no column 'weight'; there are size"),
    ({"columns": ["price"], "missing": "error"}, "row 3, column 'price' is missing"), ({"delimiter": ";"}, "is no number"),
    ({"columns": ["colour"], "categorical": {"colour": ["red"]}}, "row 2, column 'colour' is none of its categories: 'blue'"),
    ({"columns": ["colour"], "categorical": {"colour": []}}, "row 1, column 'colour' is none of its categories: 'red'"),
    ({"encoding": "ascii", "columns": ["size"], "digest": "0" * 64}, "its sha256 is .*, not 000")])
def test_what_a_table_lacks(table, options, text):
    with pytest.raises(DatasetError, match=text) as error:
        CSVDataset(table, **options)
    assert str(table) in str(error.value)


@pytest.mark.parametrize("content, text", [
    (b"", "an empty file"), (b"a,b\n", "a table without rows"), (b"a,b\n1,2\n3\n", "row 2 has 1 fields, 2 are expected"),
    (b"a,a\n1,2\n", "names a column twice"), (b"a,b\n1,\xff\n", "no table in utf-8"), (b'a,b\n1,"2\n', "no table in utf-8: unexpected end"),
    (b"a,b\n1,2" + b"x" * 200_000 + b"\n", "no table in utf-8: field larger than field limit"), (b"\x00" * 50, "no number|no table|rows")])
def test_files_that_are_no_tables(tmp_path, content, text):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=text):
        CSVDataset(path)
    with pytest.raises(DatasetError, match="there is no such file"):
        CSVDataset(tmp_path / "y.csv")


def test_options_of_tables(table):
    for call, text in ((lambda: CSVDataset(table, missing="drop"), "missing must be"),
                       (lambda: CSVDataset(table, dtype=volta.int64), "floating"),
                       (lambda: CSVStream(table, categorical=["colour"]), "give the values of the column 'colour'"),
                       (lambda: CSVDataset(table, digest="12"), "a hash has the digits of md5")):
        with pytest.raises(ArgumentError, match=text):
            call()


def test_text_as_characters(tmp_path):
    text = "to be, or not to be: ß é 😀"
    data = CharacterDataset(text, 5)
    assert len(data) == len(text) - 5 and data.alphabet == Alphabet(text) and len(data.alphabet) == len(set(text))
    for i in (0, 3, len(data) - 1, -1):
        x, y = data[i]
        assert data.alphabet.decode(x) == text[i % len(data):][:5] and data.alphabet.decode(y) == text[i % len(data) + 1:][:5]
    assert data.alphabet.decode(data.alphabet.encode(text)) == text and data.alphabet.encode("").tolist() == []
    apart = CharacterDataset(text, 5, data.alphabet, stride=6)
    assert len(apart) == 4 and apart.alphabet.decode(apart[3][0]) == text[18:23]
    path = tmp_path / "t.txt"
    path.write_text(text, encoding="utf-8")
    digest = hashlib.md5(path.read_bytes()).hexdigest()
    assert CharacterDataset.of_file(path, 5, digest=digest).data.tolist() == data.data.tolist()
    x, y = next(iter(DataLoader(data, 4)))
    assert x.shape == (4, 5) and x.dtype is volta.int64 and y[0, :-1].tolist() == x[0, 1:].tolist()
    path.write_bytes(b"\xff\xfe\xfd")
    for call, kind, part in ((lambda: data.alphabet.encode("zebra"), ArgumentError, "'z', character 0 of the text"),
                             (lambda: Alphabet("").encode("a"), ArgumentError, "alphabet of 0 characters"),
                             (lambda: data.alphabet.decode([99]), IndexError, "numbers from 99 to 99"),
                             (lambda: data.alphabet.decode([-1]), IndexError, "numbers from -1"),
                             (lambda: data.alphabet.decode([[1]]), ArgumentError, "a row of integers"),
                             (lambda: CharacterDataset("abc", 3), ArgumentError, "the text longer than length"),
                             (lambda: data[len(data)], IndexError, "out of range"),
                             (lambda: CharacterDataset.of_file(path, 2), DatasetError, "no text in utf-8"),
                             (lambda: CharacterDataset.of_file(path, 2, digest=digest), DatasetError, "its md5 is")):
        with pytest.raises(kind, match=part):
            call()


@pytest.fixture
def server():
    """A server of one file, and how often it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200 if self.path != "/none" else 404)
            self.end_headers()
            self.wfile.write(b"data" if self.path == "/file" else b"other")

        def log_message(self, *args):
            pass
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}", asked
    made.shutdown()
    made.server_close()


def test_downloads(server, tmp_path):
    address, asked = server
    path, digest = tmp_path / "new" / "file", hashlib.sha256(b"data").hexdigest()
    with pytest.raises(DatasetError, match=f"{address}/none: HTTP Error 404.*; {address}/wrong: the file's sha256 is not {digest}"):
        download([f"{address}/none", f"{address}/wrong"], path, digest)
    assert not path.exists() and not list(path.parent.iterdir())
    for _ in range(2):
        download([f"{address}/none", f"{address}/file"], path, digest)
        assert path.read_bytes() == b"data" and asked == ["/none", "/wrong", "/none", "/file"]
    path.write_bytes(b"damaged")
    download(f"{address}/file", path, digest.upper())
    assert path.read_bytes() == b"data" and len(asked) == 5
