"""volta.vision.models and ops: torchvision's keys and shapes, published files and their hashes, boxes."""
import hashlib
import io
import urllib.request

import numpy as np
import pytest

import volta
from volta import hub
from volta.errors import ArgumentError, DownloadError, ShapeError
from volta.vision import models, ops

# The first figures of the sha256 of torchvision 0.28's state dict with 10 classes: a line of name and shape for each entry.
KEYS = {
    "alexnet": "04c3dc5f927a65e2", "convnext_tiny": "938877f0166cf8e1", "densenet121": "dafe6dfe8c5d4bbe",
    "efficientnet_b0": "c957310703acfebe", "efficientnet_b3": "393ddef43520a599", "efficientnet_v2_s": "34376ec46d28dad6",
    "googlenet": "1002eb6c6a13b82b", "inception_v3": "b4d3a55e37816b59", "mobilenet_v2": "bb13d57260743abb",
    "mobilenet_v3_large": "10a51eb88f616307", "mobilenet_v3_small": "08b15f9fa668a7a4", "resnet18": "65d17c067d0b1ce3",
    "resnet50": "9a3ff6723a21ce33", "resnext50_32x4d": "368c300e65a1e734", "shufflenet_v2_x1_0": "c2ac352a2c4842c1",
    "squeezenet1_0": "c102b1a2f246185a", "squeezenet1_1": "27ac36bf67dc7286", "vgg16": "85a17f2184a8561d",
    "vit_b_16": "c1c8ad8872d55048"}


@pytest.mark.parametrize("name", KEYS)
def test_state_dicts_are_those_of_torchvision(name):
    options = {"init_weights": False} if name in ("vgg16", "googlenet", "inception_v3") else {}
    state = models.get_model(name, num_classes=10, **options).state_dict()
    text = "\n".join(f"{key} {tuple(value.shape)}" for key, value in state.items())
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == KEYS[name]


@pytest.mark.parametrize("name, size", [("resnet18", 64), ("densenet121", 64), ("squeezenet1_1", 64), ("mobilenet_v2", 64),
                                        ("mobilenet_v3_small", 64), ("shufflenet_v2_x0_5", 64), ("efficientnet_b0", 64), ("googlenet", 64)])
def test_models_train(name, size, device):
    volta.manual_seed(0)
    model = models.get_model(name, num_classes=4).to(device)
    out = model(volta.randn(2, 3, size, size, device=device))
    out = out[0] if isinstance(out, tuple) else out
    volta.nn.functional.cross_entropy(out, volta.tensor([1, 3], device=device)).backward()
    assert out.shape == (2, 4)
    grads = [p.grad for key, p in model.named_parameters() if "aux" not in key]
    assert all(g is not None and g.isfinite().all().item() for g in grads)


def test_options():
    x = volta.randn(1, 3, 64, 64)
    assert models.resnet50(num_classes=3, replace_stride_with_dilation=[False, True, True]).layer4[0].conv2.dilation == (2, 2)
    assert models.mobilenet_v2(width_mult=0.5, num_classes=2).eval()(x).shape == (1, 2)
    assert models.mobilenet_v3_small(reduced_tail=True, dilated=True, num_classes=2).eval()(x).shape == (1, 2)
    assert models.DenseNet(8, (1, 1, 1, 1), 8, num_classes=2, memory_efficient=True)(volta.randn(2, 3, 64, 64)).shape == (2, 2)
    with pytest.raises(ShapeError, match="needs images of 32 x 32"):
        models.VisionTransformer(32, 16, 1, 2, 8, 8)(x)
    with pytest.raises(ValueError, match="Unsupported SqueezeNet version"):
        models.SqueezeNet("2_0")


def test_lists():
    assert models.list_models(include="resnet*") == ["resnet101", "resnet152", "resnet18", "resnet34", "resnet50"]
    assert "vgg11_bn" not in models.list_models(include="vgg*", exclude=["*_bn"])
    assert models.get_model_weights("resnet50") is models.ResNet50_Weights is models.get_model_weights(models.resnet50)
    assert models.get_weight("ResNet50_Weights.IMAGENET1K_V2") is models.ResNet50_Weights.DEFAULT
    with pytest.raises(ArgumentError, match="there are no weights"):
        models.get_weight("ResNet50_Weights.V9")
    with pytest.raises(ValueError, match="Unknown model"):
        models.get_model("resnet19")
    prepared = models.ResNet18_Weights.DEFAULT.transforms()(volta.ones(3, 300, 260, dtype=volta.uint8))
    assert prepared.shape == (3, 224, 224) and prepared.dtype is volta.float32


# ------------------------------------------------------------ files of weights
@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where downloads are kept; there is no network."""
    def offline(url, timeout):
        raise OSError("no network")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(urllib.request, "urlopen", offline)
    checkpoints = tmp_path / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    return checkpoints


def test_weights_that_are_there_are_used(folder):
    volta.manual_seed(1)
    model = models.squeezenet1_1()
    volta.save(model.state_dict(), folder / "squeezenet1_1-b8a52dc0.pth")
    for options in ({"weights": "DEFAULT"}, {"weights": models.SqueezeNet1_1_Weights.IMAGENET1K_V1}, {"pretrained": True}):
        loaded = models.squeezenet1_1(**options).state_dict()
        assert all((loaded[key] == value).all().item() for key, value in model.state_dict().items())
    with pytest.raises(ValueError, match="expected value 1000 but got 10"):
        models.squeezenet1_1(weights="DEFAULT", num_classes=10)
    with pytest.raises(TypeError, match="Invalid Weight class"):
        models.squeezenet1_1(weights=models.ResNet18_Weights.DEFAULT)
    with pytest.raises(KeyError):
        models.squeezenet1_1(weights="V9")


def test_published_keys_are_renamed_and_heads_dropped(folder):
    state = models.densenet121().state_dict()
    old = {key.replace("norm1.", "norm.1.").replace("conv2.", "conv.2."): value for key, value in state.items()}
    assert old.keys() != state.keys()
    volta.save(old, folder / "densenet121-a639ec97.pth")
    assert models.densenet121(weights="DEFAULT").state_dict().keys() == state.keys()
    volta.save(models.googlenet().state_dict(), folder / "googlenet-1378be20.pth")
    assert models.googlenet(weights="DEFAULT").aux1 is None and models.googlenet(weights="DEFAULT", aux_logits=True).aux2 is not None
    assert models.googlenet(weights="DEFAULT").transform_input


def test_without_network_the_error_says_where_a_file_can_be_put(folder):
    with pytest.raises(DownloadError, match=r"no network. Put the file at .*resnet18-f37072fd.pth, or build the model without weights"):
        models.resnet18(weights="DEFAULT")
    assert not [*folder.iterdir()]


def test_downloads_are_checked(folder, monkeypatch, tmp_path):
    file = io.BytesIO()
    volta.save({"a": volta.ones(2)}, file)
    data = file.getvalue()

    class Answer(io.BytesIO):
        headers = {"Content-Length": str(len(data))}
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: Answer(data))
    name = f"a-{hashlib.sha256(data).hexdigest()[:8]}.pth"
    assert hub.load_state_dict_from_url(f"https://example.org/{name}", check_hash=True)["a"].tolist() == [1, 1]
    assert (folder / name).read_bytes() == data
    with pytest.raises(DownloadError, match="begins with .*, not 12345678"):
        hub.load_state_dict_from_url("https://example.org/a-12345678.pth", check_hash=True, progress=False)
    assert [path.name for path in folder.iterdir()] == [name]
    hub.set_dir(tmp_path / "elsewhere")
    try:
        assert hub.get_dir() == str(tmp_path / "elsewhere")
    finally:
        hub._folder = None


# ------------------------------------------------------------ boxes
def test_boxes(rng, device):
    corners = rng.random((12, 2, 2)).astype("f")
    array = np.concatenate([corners.min(1), corners.max(1) + 0.1], 1)
    boxes, scores = volta.tensor(array, device=device), volta.tensor(rng.random(12).astype("f"), device=device)
    iou = ops.box_iou(boxes, boxes).cpu().numpy()
    for i, (a, b, c, d) in enumerate(array):
        for j, (e, f, g, h) in enumerate(array):
            shared = max(0, min(c, g) - max(a, e)) * max(0, min(d, h) - max(b, f))
            np.testing.assert_allclose(iou[i, j], shared / ((c - a) * (d - b) + (g - e) * (h - f) - shared), atol=1e-5)
    kept = ops.nms(boxes, scores, 0.3).tolist()
    order, expected = np.argsort(-scores.cpu().numpy()), []
    for i in order:
        if all(iou[i, j] <= 0.3 for j in expected):
            expected.append(int(i))
    assert kept == expected
    assert sorted(ops.batched_nms(boxes, scores, volta.arange(12, device=device), 0.3).tolist()) == list(range(12))
    for form in ("xywh", "cxcywh"):
        there = ops.box_convert(boxes, "xyxy", form)
        np.testing.assert_allclose(ops.box_convert(there, form, "xyxy").cpu().numpy(), array, atol=1e-5)
    assert ops.clip_boxes_to_image(boxes * 10, (2, 3)).amax(0).tolist() == [3, 2, 3, 2]
    assert (ops.generalized_box_iou(boxes, boxes) <= ops.box_iou(boxes, boxes) + 1e-6).all().item()
    assert ops.remove_small_boxes(volta.tensor([[0., 0, 1, 1], [0, 0, 3, 3]], device=device), 2).tolist() == [1]
    with pytest.raises(ShapeError, match="needs boxes"):
        ops.nms(boxes, scores[:3], 0.5)


def test_stochastic_depth_and_focal_loss(device):
    volta.manual_seed(0)
    x = volta.ones(1000, 2, device=device)
    rows = ops.stochastic_depth(x, 0.25, "row")
    assert {round(v, 4) for v in rows.unique().tolist()} == {0, 1.3333} and abs(rows.mean().item() - 1) < 0.1
    assert ops.StochasticDepth(0.9, "batch").eval()(x) is x and not ops.stochastic_depth(x, 1.0, "batch").any().item()
    with pytest.raises(ArgumentError, match="mode must be 'batch' or 'row'"):
        ops.stochastic_depth(x, 0.5, "column")
    logits, wanted = volta.tensor([2.0, -1.0], device=device), volta.tensor([1.0, 1.0], device=device)
    p = 1 / (1 + np.exp(-np.array([2.0, -1.0])))
    np.testing.assert_allclose(ops.sigmoid_focal_loss(logits, wanted).cpu().numpy(), -0.25 * (1 - p) ** 2 * np.log(p), rtol=1e-4)
    assert ops.sigmoid_focal_loss(logits, wanted, alpha=-1, reduction="mean").item() > 0
