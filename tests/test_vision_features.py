"""Segmentation, feature pyramids and features on the way, in the keys and shapes of torchvision; SVHN."""
import hashlib
import struct
import zlib

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DatasetError
from volta.vision import datasets, models, ops
from volta.vision.models import segmentation
from volta.vision.models.detection.backbone_utils import mobilenet_backbone, resnet_fpn_backbone
from volta.vision.models.feature_extraction import create_feature_extractor, get_graph_node_names
from volta.vision.models.intermediate import IntermediateLayerGetter

# The first figures of the sha256 of torchvision 0.28's state dict with 5 classes: a line of name and shape for each entry.
KEYS = {
    "deeplabv3_mobilenet_v3_large": "846e019ed3eec2a4", "deeplabv3_resnet50": "69ddc81f8d17f640",
    "fcn_resnet50": "82910328c52f6e84", "lraspp_mobilenet_v3_large": "838de44a4a1f3c98"}


@pytest.mark.parametrize("name", KEYS)
def test_segmentation(name):
    options = {} if name.startswith("lraspp") else {"aux_loss": True}
    model = models.get_model(name, weights_backbone=None, num_classes=5, **options)
    text = "\n".join(f"{key} {tuple(value.shape)}" for key, value in model.state_dict().items())
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == KEYS[name]
    if "resnet" not in name:
        result = model(volta.randn(2, 3, 64, 48))
        assert {key: x.shape for key, x in result.items()} == dict.fromkeys(["out", "aux"] if options else ["out"], (2, 5, 64, 48))


def test_weights_of_segmentation(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    state = segmentation.lraspp_mobilenet_v3_large(weights_backbone=None).state_dict()
    volta.save(state, tmp_path / "hub" / "checkpoints" / "lraspp_mobilenet_v3_large-d234d4ea.pth")
    for options in ({"weights": "DEFAULT"}, {"pretrained": True}):
        loaded = segmentation.lraspp_mobilenet_v3_large(**options).state_dict()
        assert all(volta.equal(loaded[key], state[key]) for key in state)
    with pytest.raises(ValueError, match="expected value 21 but got 3"):
        segmentation.lraspp_mobilenet_v3_large(weights="DEFAULT", num_classes=3)
    with pytest.raises(NotImplementedError, match="does not use auxiliary loss"):
        segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, aux_loss=True)
    prepared = segmentation.FCN_ResNet50_Weights.DEFAULT.transforms()(volta.ones(3, 30, 60, dtype=volta.uint8))
    assert prepared.shape == (3, 520, 1040)


def test_pyramids(device):
    model = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=2).to(device)
    out = model(volta.randn(1, 3, 64, 64, device=device))
    assert {name: x.shape[1:] for name, x in out.items()} == {
        "0": (256, 16, 16), "1": (256, 8, 8), "2": (256, 4, 4), "3": (256, 2, 2), "pool": (256, 1, 1)}
    assert {name.split(".")[1] for name, p in model.body.named_parameters(prefix="body") if p.requires_grad} == {"layer3", "layer4"}
    sum(x.sum() for x in out.values()).backward()
    light = mobilenet_backbone(backbone_name="mobilenet_v3_small", weights=None, fpn=False)
    assert light.out_channels == 256 and light(volta.randn(1, 3, 32, 32)).shape == (1, 256, 1, 1)
    pyramid = ops.FeaturePyramidNetwork([2, 3], 4, ops.pyramid.LastLevelP6P7(4, 4))
    maps = {"a": volta.randn(1, 2, 8, 8), "b": volta.randn(1, 3, 4, 4)}
    assert list(pyramid(maps)) == ["a", "b", "p6", "p7"]
    old = {key.replace(".0.weight", ".weight").replace(".0.bias", ".bias"): x for key, x in pyramid.state_dict().items()}
    assert "inner_blocks.1.weight" in str(list(old)) or "inner_blocks.weight" not in old
    with pytest.raises(ValueError, match=r"range \[0,5\]"):
        resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=6)
    with pytest.raises(TypeError, match="extra_blocks should be"):
        ops.FeaturePyramidNetwork([2], 4, volta.nn.ReLU())


def test_features_on_the_way(device):
    model, x = models.resnet18(num_classes=3).to(device), volta.randn(2, 3, 32, 32, device=device)
    features = create_feature_extractor(model, {"layer1": "low", "layer3.0": "high", "avgpool": "all"}).eval()
    model.eval()
    found, getter = features(x), IntermediateLayerGetter(model, {"layer1": "low"})
    assert list(found) == ["low", "high", "all"] and volta.equal(found["low"], getter(x)["low"])
    assert not any(key.startswith("fc") for key in features.state_dict())
    names = get_graph_node_names(model)[1]
    assert names[:8] == ["x", "conv1", "bn1", "relu", "maxpool", "layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu"]
    assert "layer1.0.relu_1" in names and not model.training
    drops = create_feature_extractor(models.vgg11(num_classes=2, init_weights=False), ["classifier.1"])
    assert drops.training and drops.graph is drops.train_graph and drops.eval().graph is drops.eval_graph
    assert create_feature_extractor(models.VisionTransformer(32, 16, 1, 2, 8, 8), ["encoder.ln"])(x.cpu())["encoder.ln"].shape == (2, 5, 8)
    with pytest.raises(ValueError, match="node: 'layer9' is not present"):
        create_feature_extractor(model, ["layer9"])
    for wrong in ({}, {"train_return_nodes": ["fc"]}):
        with pytest.raises(ValueError, match="should be specified"):
            create_feature_extractor(model, **wrong)
    with pytest.raises(ValueError, match="not present in model"):
        IntermediateLayerGetter(model, {"layer9": "x"})


# ------------------------------------------------------------ SVHN
def element(kind, data, short=False):
    if short:
        return struct.pack("<HH4s", kind, len(data), data)
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def matrix(name, array):
    kind, own = {"uint8": (2, 9), "float64": (9, 6)}[array.dtype.name]
    return element(14, element(6, struct.pack("<II", own, 0)) + element(5, np.array(array.shape, "i4").tobytes()) + (
        element(1, name.encode(), True)) + element(kind, array.tobytes("F")))


def matlab(*matrices, packed=False):
    parts = [struct.pack("<II", 15, len(zlib.compress(m))) + zlib.compress(m) if packed else m for m in matrices]
    return b"MATLAB 5.0".ljust(124) + b"\0\1IM" + b"".join(parts)


def test_svhn(tmp_path, rng):
    images, labels = rng.integers(0, 256, (32, 32, 3, 4), np.uint8), np.array([[10], [1], [9], [5]], np.uint8)
    for packed, y in ((True, labels), (False, labels.astype(float))):
        (tmp_path / "test_32x32.mat").write_bytes(matlab(matrix("X", images), matrix("y", y), packed=packed))
        data = datasets.SVHN(tmp_path, "test", transform=np.asarray)
        assert data.labels.tolist() == [0, 1, 9, 5] and len(data) == 4 and data.data.shape == (4, 3, 32, 32)
        assert np.array_equal(data[2][0], images[..., 2]) and data[2][1] == 9
    whole = matlab(matrix("X", images), matrix("y", labels))
    for damaged, text in ((whole[:-9], "damaged"), (b"x" * 200, "does not begin"), (matlab(matrix("X", images)), "needs images X"),
                          (matlab(matrix("X", images[:9]), matrix("y", labels)), "needs images X"),
                          (matlab(matrix("X", images), matrix("y", labels + 1)), "from 1 to 10"), (whole[:128] + b"\xff" * 64, "damaged")):
        (tmp_path / "train_32x32.mat").write_bytes(damaged)
        with pytest.raises(DatasetError, match=text):
            datasets.SVHN(tmp_path)
    with pytest.raises(DatasetError, match="Dataset not found"):
        datasets.SVHN(tmp_path, "extra")
    with pytest.raises(ArgumentError, match="split must be one of"):
        datasets.SVHN(tmp_path, "all")
