"""volta.vision: transforms on every kind of image, readers of files written here, grids and PNG."""
import gzip
import hashlib
import io
import lzma
import pickle
import struct
import tarfile
import urllib.request
import zipfile
import zlib

import numpy as np
import pytest

import volta
from volta.data import DataLoader
from volta.vision import datasets, transforms, utils
from volta.vision.datasets import files
from volta.vision.transforms import functional as T
from volta.vision.transforms import v2


def pixels(rng, *shape):
    return rng.integers(0, 256, shape, dtype=np.uint8)


# ------------------------------------------------------------ transforms
FUNCTIONS = {
    "hflip": T.hflip, "vflip": T.vflip, "crop": lambda x: T.crop(x, -1, 2, 5, 9), "center_crop": lambda x: T.center_crop(x, (4, 12)),
    "pad": lambda x: T.pad(x, (1, 2, 3, 0), 7), "pad reflect": lambda x: T.pad(x, 2, 0, "reflect"),
    "pad edge": lambda x: T.pad(x, (1, 2), 0, "edge"), "pad symmetric": lambda x: T.pad(x, 2, 0, "symmetric"),
    "resize": lambda x: T.resize(x, (5, 14)), "resize short": lambda x: T.resize(x, 6, max_size=7),
    "resize bicubic": lambda x: T.resize(x, (20, 6), T.InterpolationMode.BICUBIC),
    "resize nearest": lambda x: T.resize(x, (5, 14), T.InterpolationMode.NEAREST),
    "resized_crop": lambda x: T.resized_crop(x, 1, 1, 4, 5, 6),
    "grey": T.rgb_to_grayscale, "grey 3": lambda x: T.rgb_to_grayscale(x, 3), "brightness": lambda x: T.adjust_brightness(x, 1.4),
    "contrast": lambda x: T.adjust_contrast(x, 0.6), "saturation": lambda x: T.adjust_saturation(x, 1.6),
    "invert": T.invert, "posterize": lambda x: T.posterize(x, 3), "solarize": lambda x: T.solarize(x, 100), "autocontrast": T.autocontrast,
    "equalize": T.equalize, "gamma": lambda x: T.adjust_gamma(x, 0.7, 1.1), "sharpness": lambda x: T.adjust_sharpness(x, 1.8),
    "smoothness": lambda x: T.adjust_sharpness(x, 0.0)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kinds_of_images_agree(name, rng, device):
    image = pixels(rng, 8, 10, 3)
    out = FUNCTIONS[name](image)
    t = FUNCTIONS[name](volta.tensor(image, device=device).permute(2, 0, 1))
    assert t.device.type == device and t.dtype is volta.uint8 and out.dtype == np.uint8
    assert np.abs(t.permute(1, 2, 0).cpu().numpy().reshape(out.shape).astype(int) - out).max() <= (device == "gpu")
    if name not in ("grey", "saturation"):                      # a grey image has no channels
        assert FUNCTIONS[name](image[..., 0]).shape[:2] == out.shape[:2]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if "nearest" not in n and "bicubic" not in n])     # which round otherwise
def test_arrays_agree_with_pillow(name, rng):
    image = pytest.importorskip("PIL.Image", reason="Pillow, an extra, makes the images")
    array = pixels(rng, 8, 10, 3)
    theirs = np.asarray(FUNCTIONS[name](image.fromarray(array)))
    assert np.abs(theirs.astype(int) - FUNCTIONS[name](array).reshape(theirs.shape)).max() <= 2


def test_rotations(rng, device):
    image = volta.tensor(pixels(rng, 6, 8), device=device).float()[None]
    np.testing.assert_allclose(T.rotate(image, 90, expand=True).cpu(), np.rot90(image.cpu().numpy(), 1, (1, 2)))
    np.testing.assert_allclose(T.rotate(image, 180, T.InterpolationMode.BILINEAR).cpu(), image.cpu().numpy()[:, ::-1, ::-1], atol=1e-2)
    moved = T.affine(image, 0, (2, 1), 1.0, 0.0, fill=[9.0]).cpu().numpy()
    np.testing.assert_allclose(moved[:, 1:, 2:], image.cpu().numpy()[:, :-1, :-2])
    assert (moved[:, 0] == 9).all() and (moved[:, :, :2] == 9).all()
    blurred = T.gaussian_blur(volta.ones(3, 6, 6, device=device), 3)
    np.testing.assert_allclose(blurred.cpu(), 1, rtol=1e-6)
    turned = T.adjust_hue(volta.tensor([1.0, 0.0, 0.0], device=device).reshape(3, 1, 1), 1 / 3)
    np.testing.assert_allclose(turned.reshape(3).cpu(), [0, 1, 0], atol=1e-6)


def test_perspective_and_displacement(rng, device):
    image = volta.tensor(pixels(rng, 2, 3, 6, 8), device=device)
    corners = [[0, 0], [7, 0], [7, 5], [0, 5]]
    assert T.perspective(image, corners, corners).equal(image)
    flipped = T.perspective(image.float(), corners, [[7, 0], [0, 0], [0, 5], [7, 5]], T.InterpolationMode.NEAREST).cpu().numpy()
    np.testing.assert_array_equal(flipped[..., :-1], image.cpu().numpy()[..., :-1][..., ::-1])      # a corner is a pixel's upper left
    still = volta.zeros(1, 6, 8, 2)
    assert T.elastic_transform(image, still).equal(image)
    still[..., 0] = 2 / 8
    moved = T.elastic_transform(image, still, fill=[9.0, 8.0, 7.0]).cpu().numpy()
    assert (moved[..., :-1] == image.cpu().numpy()[..., 1:]).all() and moved[1, :, 0, -1].tolist() == [9, 8, 7]
    with pytest.raises(ValueError, match="'fill' cannot broadcast"):
        T.elastic_transform(image, still, fill=[1.0, 2.0])
    with pytest.raises(ValueError, match="exactly four corners"):
        T.perspective(image, corners[:3], corners)
    with pytest.raises(ValueError, match="lie on a line"):
        T.perspective(image, corners, [[0, 0], [1, 1], [2, 2], [3, 3]])


def test_policies_change_images_of_every_kind(rng, device):
    image = volta.tensor(pixels(rng, 3, 12, 16), device=device)
    policies = [transforms.AutoAugment(policy) for policy in transforms.AutoAugmentPolicy] + [
        transforms.RandAugment(), transforms.TrivialAugmentWide(), transforms.AugMix(), transforms.AugMix(all_ops=False, fill=[1, 2, 3])]
    for policy in policies:
        results = [policy(image) for _ in range(12)]
        assert all(r.shape == image.shape and r.dtype is volta.uint8 and r.device.type == device for r in results)
        assert len({str(r.tolist()) for r in results}) > 3
        assert policy(image.cpu().permute(1, 2, 0).numpy()).shape == (12, 16, 3)
    for call in (lambda: transforms.AutoAugment("imagenet"), lambda: transforms.RandAugment(magnitude=31), lambda: transforms.AugMix(11)):
        with pytest.raises(ValueError, match="recognized|must be from 0|between"):
            call()


def test_whitening():
    turn = transforms.LinearTransformation(volta.eye(12) * 2, volta.ones(12))
    assert turn(volta.ones(5, 3, 2, 2)).tolist() == volta.zeros(5, 3, 2, 2).tolist()
    with pytest.raises(ValueError, match="incompatible shape"):
        turn(volta.ones(3, 2, 3))


def test_the_second_set(rng, device):
    array = pixels(rng, 4, 5, 3)
    pipeline = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(0), v2.ToDtype(volta.float32, scale=True), v2.Normalize([0.5], [0.5])])
    np.testing.assert_allclose(pipeline(array).numpy(), array.transpose(2, 0, 1) / 255 * 2 - 1, atol=1e-6)
    assert v2.ToDtype(volta.float32)(v2.ToImage()(array)).amax().item() == array.max() and v2.RGB()(volta.ones(1, 2, 2)).shape == (3, 2, 2)
    image = volta.rand(3, 4, 5, device=device)
    assert sorted(v2.RandomChannelPermutation()(image).sum((1, 2)).tolist()) == sorted(image.sum((1, 2)).tolist())
    noisy = v2.GaussianNoise(sigma=0.5)(image)
    assert 0 <= noisy.amin().item() <= noisy.amax().item() <= 1 and not noisy.equal(image)
    labels = volta.arange(3, device=device)
    images = labels.reshape(3, 1, 1, 1) * volta.ones(3, 1, 8, 8, device=device)
    for mixing in (v2.MixUp(num_classes=4), v2.CutMix(num_classes=4)):
        mixed, shares = mixing(images, labels)
        assert shares.shape == (3, 4) and mixed.device.type == device
        np.testing.assert_allclose(shares.sum(1).tolist(), 1, rtol=1e-6)
        np.testing.assert_allclose(mixed.mean((1, 2, 3)).tolist(), (shares[:, :3] @ volta.arange(3.0, device=device)).tolist(), rtol=1e-5)
    with pytest.raises(ValueError, match="num_classes must be passed"):
        v2.MixUp()(images, labels)


def test_conversions(rng):
    image = pixels(rng, 4, 5, 3)
    t = transforms.ToTensor()(image)
    assert t.dtype is volta.float32 and t.shape == (3, 4, 5) and t.is_contiguous()
    np.testing.assert_array_equal(t.numpy(), np.float32(image.transpose(2, 0, 1)) / np.float32(255))
    assert T.to_tensor(image[..., 0]).shape == (1, 4, 5) and T.to_tensor(image.astype(np.float32)).amax() > 1
    np.testing.assert_array_equal(T.convert_image_dtype(t, volta.uint8).numpy(), image.transpose(2, 0, 1))
    half = T.normalize(t, [0.5] * 3, [0.5] * 3)
    np.testing.assert_allclose(half.numpy(), t.numpy() * 2 - 1, atol=1e-6)
    assert T.normalize(t, [0.5], [0.5], inplace=True) is t
    np.testing.assert_array_equal(t.numpy(), half.numpy())


def test_pillow_there_and_back(rng):
    image = pytest.importorskip("PIL.Image", reason="Pillow, an extra, makes the images")
    for mode, shape in (("RGB", (4, 5, 3)), ("L", (4, 5)), ("RGBA", (4, 5, 4))):
        array = pixels(rng, *shape)
        pil = T.to_pil_image(array)
        assert pil.mode == mode and np.array_equal(np.asarray(pil), array)
        assert np.array_equal(np.asarray(T.to_pil_image(T.to_tensor(pil))), array)
        assert T.pil_to_tensor(pil).dtype is volta.uint8 and T.get_dimensions(pil) == [len(mode), 4, 5]
    assert T.to_tensor(image.new("1", (2, 2), 1)).tolist() == [[[1, 1], [1, 1]]]
    out = transforms.Compose([transforms.Resize(32), transforms.RandomCrop(28, padding=2), transforms.RandomRotation(10),
                              transforms.ColorJitter(0.2, 0.2, 0.2, 0.1), transforms.RandomAffine(5, (0.1, 0.1), (0.9, 1.1), 5),
                              transforms.GaussianBlur(3), transforms.ToTensor()])(image.fromarray(pixels(rng, 40, 50, 3)))
    assert out.shape == (3, 28, 28)


RANDOM = [transforms.RandomCrop(6, padding=1), transforms.RandomHorizontalFlip(), transforms.RandomVerticalFlip(),
          transforms.RandomResizedCrop(6), transforms.ColorJitter(0.4, 0.4, 0.4, 0.2), transforms.RandomRotation(30),
          transforms.RandomAffine(10, (0.2, 0.2), (0.5, 1.5), 10), transforms.RandomErasing(1.0), transforms.RandomErasing(value="random"),
          transforms.RandomGrayscale(0.5), transforms.RandomApply([transforms.Pad(1)]), transforms.GaussianBlur(3, (0.1, 5)),
          transforms.RandomPerspective(p=0.8), transforms.ElasticTransform(20.0, 0.4), transforms.RandomPosterize(2),
          transforms.RandomSolarize(0.5), transforms.RandomAdjustSharpness(3), transforms.RandomAutocontrast(), transforms.RandomInvert(),
          transforms.RandomChoice([transforms.CenterCrop(4), transforms.CenterCrop(5)]), transforms.RandomOrder([T.hflip, T.vflip])]


@pytest.mark.parametrize("transform", RANDOM, ids=lambda transform: type(transform).__name__)
def test_random_transforms_follow_the_seed(transform, rng):
    image = volta.tensor(pixels(rng, 3, 8, 8))
    image = image if isinstance(transform, transforms.RandomPosterize) else image / 255

    def draw():
        volta.manual_seed(3)
        return [transform(image).tolist() for _ in range(8)]
    first = draw()
    assert first == draw()
    if not isinstance(transform, transforms.RandomOrder):
        assert len({str(v) for v in first}) > 1
    assert type(transform).__name__ in repr(transform)


@pytest.mark.parametrize("call, kind, text", [
    (lambda: T.to_tensor([1]), TypeError, "pic should be PIL Image or ndarray"), (lambda: T.hflip(3), TypeError, "img should be PIL Image"),
    (lambda: T.to_tensor(np.zeros(3)), ValueError, "2/3 dimensional"),
    (lambda: T.normalize(volta.ones(1, 2, 2), [0], [0]), ValueError, "division by zero"),
    (lambda: T.normalize(np.ones((2, 2)), [0], [1]), TypeError, "Tensor Image"),
    (lambda: transforms.RandomCrop(9)(np.zeros((8, 8))), ValueError, "is larger than input image size"),
    (lambda: T.pad(np.zeros((2, 2)), (1, 2, 3)), ValueError, "1, 2, or 4 element tuple"),
    (lambda: T.pad(np.zeros((2, 2)), 1, 0, "wrap"), ValueError, "constant, edge, reflect or symmetric"),
    (lambda: T.resize(np.zeros((2, 2)), 3, "bilinear"), TypeError, "interpolation should be a InterpolationMode"),
    (lambda: T.resize(np.zeros((2, 2)), (3, 3, 3)), ValueError, "one number or two"),
    (lambda: T.adjust_hue(np.zeros((2, 2, 3)), 0.7), ValueError, "not in"),
    (lambda: T.adjust_contrast(np.zeros((2, 2, 4)), 1), TypeError, "permitted channel values"),
    (lambda: transforms.ColorJitter(-1), ValueError, "must be non negative"), (lambda: transforms.Lambda(3), TypeError, "callable"),
    (lambda: T.gaussian_blur(np.zeros((4, 4)), 2), ValueError, "odd and positive"),
    (lambda: transforms.RandomErasing(2.0), ValueError, "between 0 and 1")])
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


# ------------------------------------------------------------ datasets
def idx(array):
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def digits(tmp_path, rng):
    """A folder with MNIST's files, those for testing packed, and what is in them."""
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    images, labels = pixels(rng, 6, 28, 28), np.arange(6, dtype=np.uint8)
    (folder / "train-images-idx3-ubyte").write_bytes(idx(images))
    (folder / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images[:2])))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels[:2])))
    return tmp_path, folder, images, labels


def test_mnist(digits):
    root, folder, images, labels = digits
    data = datasets.MNIST(str(root), transform=transforms.ToTensor(), target_transform=lambda t: t + 1)
    assert data.data.dtype is volta.uint8 and data.targets.tolist() == labels.tolist() and len(data) == 6
    x, y = data[3]
    assert y == 4 and np.array_equal(x.numpy()[0], images[3].astype(np.float32) / np.float32(255))
    assert len(datasets.MNIST(root, train=False)) == 2 and data.class_to_idx["3 - three"] == 3 and "Split: Train" in repr(data)
    batches = list(DataLoader(data, 4, num_workers=2))
    assert [b[0].shape for b in batches] == [(4, 1, 28, 28), (2, 1, 28, 28)] and batches[0][1].dtype is volta.int64
    with pytest.raises(RuntimeError, match="FashionMNIST: Dataset not found. You can use download=True"):
        datasets.FashionMNIST(root)


@pytest.mark.parametrize("name, data, text", [
    ("train-images-idx3-ubyte", idx(np.zeros((6, 28, 28), np.uint8))[:-1], "is it cut short"),
    ("train-images-idx3-ubyte", b"<html>not found", "not an IDX file"), ("train-images-idx3-ubyte", b"", "not an IDX file"),
    ("train-images-idx3-ubyte", struct.pack(">BBBBIII", 0, 0, 8, 3, *[0xFFFFFFFF] * 3), "is it cut short"),
    ("train-labels-idx1-ubyte", idx(np.zeros(5, np.uint8)), "needs bytes of shape"),
    ("train-labels-idx1-ubyte", idx(np.full(6, 10, np.uint8)), "labels from 10 to 10")])
def test_damaged_digits(digits, name, data, text):
    (digits[1] / name).write_bytes(data)
    with pytest.raises(RuntimeError, match=text):
        datasets.MNIST(digits[0])


def test_downloads_are_checked(digits, tmp_path, monkeypatch):
    root, folder, images, labels = digits
    sent = gzip.compress(idx(labels))
    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: asked.append(url) or io.BytesIO(sent))
    datasets.MNIST(root, download=True)
    assert not asked, "nothing is downloaded where the files are"
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(RuntimeError, match="md5 is not d53e105ee54ea40749a09fcbcd1e9432.*md5"):
        datasets.MNIST(root, download=True)
    assert len(asked) == 2 and sorted(p.name for p in folder.iterdir()) == sorted(
        ["train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"])
    known = [(name, hashlib.md5(sent).hexdigest()) for name, _ in datasets.MNIST.resources]
    monkeypatch.setattr(datasets.MNIST, "resources", known)
    assert datasets.MNIST(root, download=True).targets.tolist() == labels.tolist()


def cifar(folder, rng, **entries):
    folder.mkdir(parents=True, exist_ok=True)
    images = pixels(rng, 2, 3072)
    for name in [*datasets.CIFAR10.train_list, "test_batch"]:
        (folder / name).write_bytes(pickle.dumps({"data": images, "labels": [1, 0], **entries}, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["plane", "car"]}, protocol=2))
    return images


def test_cifar(tmp_path, rng):
    images = cifar(tmp_path / "cifar-10-batches-py", rng)
    data = datasets.CIFAR10(tmp_path, transform=transforms.ToTensor())
    assert data.data.shape == (10, 32, 32, 3) and data.targets == [1, 0] * 5 and data.classes == ["plane", "car"]
    np.testing.assert_array_equal(data[1][0].numpy(), images[1].reshape(3, 32, 32) / np.float32(255))
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "fine_label_names.txt").write_text("a\nb\n")
    (folder / "train.bin").write_bytes(b"\7\1" + images[0].tobytes())
    fine = datasets.CIFAR100(tmp_path)
    assert fine.targets == [1] and np.array_equal(fine.data[0], images[0].reshape(3, 32, 32).transpose(1, 2, 0))
    (folder / "train.bin").write_bytes(b"\7\1" + images[0].tobytes()[:-1])
    with pytest.raises(RuntimeError, match="is it cut short"):
        datasets.CIFAR100(tmp_path)


def test_emnist_and_qmnist(tmp_path, rng, monkeypatch):
    images, labels = pixels(rng, 4, 28, 28), np.array([1, 26, 3, 4], np.uint8)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for part, count in (("train", 4), ("test", 2)):
            for name, array in (("images-idx3", images), ("labels-idx1", labels)):
                archive.writestr(f"gzip/emnist-letters-{part}-{name}-ubyte.gz", gzip.compress(idx(array[:count])))
    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: asked.append(url) or io.BytesIO(packed.getvalue()))
    monkeypatch.setattr(datasets.EMNIST, "md5", hashlib.md5(packed.getvalue()).hexdigest())
    data = datasets.EMNIST(tmp_path, "letters", download=True, transform=np.asarray)
    assert data.classes[26] == "z" and data[1][1] == 26 and np.array_equal(data[2][0], images[2])
    assert len(datasets.EMNIST(tmp_path, split="letters", train=False, download=True)) == 2 and len(asked) == 1
    with pytest.raises(ValueError, match="Unknown value 'caps' for argument split"):
        datasets.EMNIST(tmp_path, "caps")
    assert [len(datasets.EMNIST.classes_split_dict[name]) for name in datasets.EMNIST.splits] == [62, 47, 47, 27, 10, 10]
    folder, about = tmp_path / "QMNIST" / "raw", np.arange(32).reshape(4, 8)
    folder.mkdir(parents=True)
    table = struct.pack(">BBBBII", 0, 0, 12, 2, 4, 8) + about.astype(">i4").tobytes()
    (folder / "xnist-images-idx3-ubyte.xz").write_bytes(lzma.compress(idx(images)))
    (folder / "xnist-labels-idx2-int.xz").write_bytes(lzma.compress(table))
    monkeypatch.setattr(datasets.QMNIST, "classes", [str(i) for i in range(25)])
    assert [t for _, t in datasets.QMNIST(tmp_path, "nist")] == [0, 8, 16, 24]
    assert datasets.QMNIST(tmp_path, "nist", compat=False)[1][1].tolist() == list(range(8, 16))
    (folder / "xnist-labels-idx2-int.xz").write_bytes(lzma.compress(table)[:-9])
    with pytest.raises(RuntimeError, match="not a whole xz file"):
        datasets.QMNIST(tmp_path, "nist")
    with pytest.raises(RuntimeError, match="QMNIST: Dataset not found"):
        datasets.QMNIST(tmp_path, train=False)


def test_stl(tmp_path, rng):
    folder, images = tmp_path / "stl10_binary", pixels(rng, 3, 3, 96, 96)
    folder.mkdir()
    for name in ("train_X", "unlabeled_X", "test_X"):
        (folder / f"{name}.bin").write_bytes(images.tobytes())
    (folder / "train_y.bin").write_bytes(bytes([1, 10, 3]))
    (folder / "fold_indices.txt").write_text("2 0\n9\n")
    (folder / "class_names.txt").write_text("airplane\nbird\n")
    data = datasets.STL10(tmp_path, "train+unlabeled", transform=np.asarray)
    assert data.labels.tolist() == [0, 9, 2, -1, -1, -1] and data.classes == ["airplane", "bird"]
    assert np.array_equal(data[4][0], images[1].transpose(2, 1, 0)) and datasets.STL10(tmp_path, folds=0).labels.tolist() == [2, 0]
    for change, split, text in (((), "test", "test_y.bin: there is no such file"), (("train_y.bin", b"\0\1\2"), "train", "from 1 to 10"),
                                (("unlabeled_X.bin", b"123"), "unlabeled", "3 bytes are no whole number of images")):
        if change:
            (folder / change[0]).write_bytes(change[1])
        with pytest.raises(RuntimeError, match=text):
            datasets.STL10(tmp_path, split)
    (folder / "train_y.bin").write_bytes(bytes([1, 10, 3]))
    for fold in (1, 5):
        with pytest.raises(RuntimeError, match=f"no list of images for fold {fold}"):
            datasets.STL10(tmp_path, folds=fold)
    with pytest.raises(ValueError, match="split must be one of"):
        datasets.STL10(tmp_path, "all")


class Evil:
    def __reduce__(self):
        return print, ("run!",)


@pytest.mark.parametrize("entries, text", [
    (dict(labels=Evil()), "names 'builtins.print'"), (dict(labels=[1]), "needs 'data'"),
    (dict(labels=[1, 9]), "there are 2 classes"), (dict(data=np.array([object()])), "elements that are no numbers"),
    (dict(data="x"), "needs 'data'")])
def test_damaged_and_hostile_cifar(tmp_path, rng, entries, text, capsys):
    cifar(tmp_path / "cifar-10-batches-py", rng, **entries)
    with pytest.raises(RuntimeError, match=text):
        datasets.CIFAR10(tmp_path)
    nested = b"(K\x01K\x02t" + b"q\x01h\x01\x86" * 60           # hashing it as a key would take 2**60 steps
    for hostile in (b"\x80\x02}q", b"", b"cos\nsystem\n(U\x08echo runtR.", b"\x80\x02}" + nested + b"K\x01s.", pickle.dumps([1], 2)):
        (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(hostile)
        with pytest.raises(RuntimeError, match="data_batch_1: not one of CIFAR's files, or damaged"):
            datasets.CIFAR10(tmp_path)
    assert "run!" not in capsys.readouterr().out


def test_cifar_is_unpacked_from_its_archive(tmp_path, rng, monkeypatch):
    cifar(tmp_path / "made" / "cifar-10-batches-py", rng)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(tmp_path / "made" / "cifar-10-batches-py", "cifar-10-batches-py")
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(packed.getvalue()))
    monkeypatch.setattr(datasets.CIFAR10, "tgz_md5", hashlib.md5(packed.getvalue()).hexdigest())
    assert len(datasets.CIFAR10(tmp_path / "new", train=False, download=True)) == 2
    with pytest.raises(RuntimeError, match="CIFAR100: Dataset not found or corrupted"):
        datasets.CIFAR100(tmp_path)


def test_folders(tmp_path, rng):
    for name in ("b/2.npy", "a/sub/1.npy", "a/0.npy", "a/readme.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, pixels(rng, 2, 2)) if name.endswith("npy") else (tmp_path / name).write_text("")
    data = datasets.DatasetFolder(tmp_path, np.load, (".npy",))
    assert data.classes == ["a", "b"] and data.targets == [0, 0, 1] and data[2][0].shape == (2, 2)
    (tmp_path / "c").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the classes c"):
        datasets.DatasetFolder(tmp_path, np.load, (".npy",))
    assert len(datasets.DatasetFolder(tmp_path, np.load, (".npy",), allow_empty=True).classes) == 3
    with pytest.raises(FileNotFoundError, match="any class folder"):
        datasets.ImageFolder(tmp_path / "c")


def test_image_folder_and_noise(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow, an extra, makes the images")
    (tmp_path / "dog").mkdir()
    image.new("L", (3, 2), 7).save(tmp_path / "dog" / "x.png")
    x, y = datasets.ImageFolder(tmp_path, transforms.ToTensor())[0]
    assert x.shape == (3, 2, 3) and y == 0
    noise = datasets.FakeData(4, (3, 8, 8), transform=transforms.ToTensor())
    assert noise[1][0].shape == (3, 8, 8) and noise[1][0].equal(noise[1][0]) and not noise[1][0].equal(noise[2][0])


def test_without_pillow_images_are_arrays(digits, monkeypatch):
    monkeypatch.setattr(files, "_from_array", lambda: None)
    root, _, images, _ = digits
    plain = datasets.MNIST(root)[0][0]
    assert isinstance(plain, np.ndarray) and np.array_equal(plain, images[0])
    pipeline = transforms.Compose([transforms.RandomCrop(28, 2), transforms.RandomHorizontalFlip(), transforms.Resize(14),
                                   transforms.ToTensor()])
    assert datasets.MNIST(root, transform=pipeline)[0][0].shape == (1, 14, 14)


# ------------------------------------------------------------ grids and files
def decode(data):
    """The bytes of a PNG file written here: one chunk, lines without filters."""
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    length, = struct.unpack(">I", data[33:37])
    lines = np.frombuffer(zlib.decompress(data[41:41 + length]), np.uint8).reshape(height, -1)
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and depth == 8 and kind == 2 and not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def test_grids(device):
    images = volta.arange(5, device=device).float().reshape(5, 1, 1, 1).expand(5, 1, 2, 3)
    grid = utils.make_grid(images, nrow=3, padding=1, pad_value=9).cpu().numpy()
    assert grid.shape == (3, 7, 13) and grid[0, 1, 1:4].tolist() == [0, 0, 0] and grid[2, 4, 5:8].tolist() == [4, 4, 4]
    assert (grid[:, 4:, 8:] == 9).all() and (grid[:, 0] == 9).all()
    scaled = utils.make_grid(images, normalize=True)
    assert scaled.amax().item() == 1 and utils.make_grid(images[0]).shape == (3, 2, 3)
    assert utils.make_grid(images, normalize=True, value_range=(0, 8)).amax().item() == 0.5
    with pytest.raises(TypeError, match="tensor or list of tensors expected"):
        utils.make_grid(np.zeros((1, 2, 2)))


def test_png(tmp_path, rng, device):
    array = pixels(rng, 3, 5, 4)
    utils.save_image(volta.tensor(array, device=device) / 255, tmp_path / "x.png")
    assert np.array_equal(decode((tmp_path / "x.png").read_bytes()), array.transpose(1, 2, 0))
    file = io.BytesIO()
    utils.save_image(volta.zeros(4, 1, 2, 2), file, format="png", nrow=2)
    assert decode(file.getvalue()).shape == (10, 10, 3)


def test_pillow_reads_the_png(tmp_path, rng):
    image = pytest.importorskip("PIL.Image", reason="Pillow, an extra, makes the images")
    array = pixels(rng, 3, 5, 4)
    for name in ("x.png", "x.bmp"):
        utils.save_image(volta.tensor(array) / 255, tmp_path / name)
        assert np.array_equal(np.asarray(image.open(tmp_path / name)), array.transpose(1, 2, 0))
