from __future__ import annotations

import pytest
from support.commands import call
from support.training import recipe

from penstock import custom
from penstock.config import apply
from penstock.errors import RecipeError
from penstock.training import resume, train


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("unet:resnet50", None), ("resnet50", None), ("deeplabv3plus:resnet50.a1_in1k", None), ("", None),
        ("my_net.py:build", ("my_net.py", "build")), ("/a b/my_net.py:build", ("/a b/my_net.py", "build")),
        ("pkg.nets:build", ("pkg.nets", "build")), ("my_net.py", None), ("my_net.py:not a name", None),
        ("fasterrcnn:torchvision/resnet50", None), ("C:x.py:f", ("C:x.py", "f")),
    ],
)  # fmt: skip
def test_a_name_is_a_name_or_a_place(text, place):
    assert custom.import_path_of(text) == (place and custom.ImportPath(*place))


NETS = {
    "missing": ("", "my_net.py:build", "model.name = DIR/gone.py:build: expected a Python file, found no such file. Check the path."),
    "name": ("def other(classes):\n    pass\n", "", "model.name = DIR/my_net.py:build: DIR/my_net.py defines no 'build', only other. Check the name."),
    "fails": ("import math\n\nx = 1 / 0\n", "", "model.name = DIR/my_net.py:build, line 3: the import fails with ZeroDivisionError: division by zero. Fix the file."),
    "syntax": ("def build(:\n", "", "model.name = DIR/my_net.py:build, line 1: the import fails with SyntaxError: invalid syntax (my_net.py, line 1). Fix the file."),
    "signature": ("\n\ndef build(classes, depth):\n    pass\n", "", "model.name = DIR/my_net.py:build, line 3: the parameter depth has no default, and Penstock passes only classes, channels, weights. Rename it, or give it a default."),
    "thing": ("build = 3\n", "", "model.name = DIR/my_net.py:build: expected something to call, found int. Name a function or a class."),
    "is": ("from torch import nn\n\nbuild = nn.Conv2d(3, 2, 1)\n", "", "model.name = DIR/my_net.py:build: expected a function that returns a torch.nn.Module, found a network. Return it from a function."),
    "gives": ("def build(classes):\n    return 3\n", "", "model.name = DIR/my_net.py:build: expected a function that returns a torch.nn.Module, found one that returns int. Return the network."),
    "shape": ("from torch import nn\n\n\ndef build(classes):\n    return nn.Conv2d(3, classes, 1, 2)\n", "", "model.name = DIR/my_net.py:build: expected logits of shape (1, 6, 32, 32) for an image of 32 x 32, found (1, 6, 16, 16). Fix the network."),
}  # fmt: skip


@pytest.mark.parametrize("case", NETS)
def test_what_is_wrong_with_a_file_is_named(packed, tmp_path, case, capsys):
    text, _, message = NETS[case]
    (tmp_path / "my_net.py").write_text(text)
    place = f"{tmp_path}/{'gone' if case == 'missing' else 'my_net'}.py:build"
    words = [
        "--model",
        place,
        "--weights",
        "none",
        "--crop",
        32,
        32,
        "--batch",
        4,
        "--steps",
        1,
        "--runs",
        tmp_path / "runs",
    ]
    code, _, err = call("train", packed.folder, *words, capsys=capsys)

    assert (code, err) == (2, f"error: {message.replace('DIR', str(tmp_path))}\n")
    assert not list((tmp_path / "runs").glob("*"))


BEFORE_A_RUN = [
    ("loss.custom=PLACE", "\ndef part(pred, y):\n    return pred.mean()\n",
     "loss.custom = PLACE, line 2: expected the parameters (logits, target, ignore), found (pred, y). Change the parameters "
     "of the function."),
    ("loss.custom=boundary", "", "loss.custom: expected FILE.py:NAME or package.module:NAME, found boundary. Name a place, "
     "or leave it out."),
    ("train.metrics=['PLACE']", "class part:\n    state = 0\n", "train.metrics = PLACE: expected an object with state, update, "
     "compute, found one without update, compute. Add them."),
    ("train.metrics=['iou']", "", "train.metrics: expected FILE.py:NAME or package.module:NAME, found iou. Name places alone."),
    ("hooks=['PLACE']", "class part:\n    pass\n", "hooks = PLACE: expected a class derived from penstock.session.Hook, found part. "
     "Derive it from Hook."),
    ("hooks=['PLACE']", "def part():\n    open('called', 'w')\n", "hooks = PLACE: expected a class derived from penstock.session.Hook, "
     "found part. Derive it from Hook."),
    ("hooks=['grids']", "", "hooks: expected one of profiler, keep_best, stop_at_score, log_values, fed_images, placement, max_time, mlflow, wandb, or FILE.py:NAME, found grids. Name a hook."),
    ("hooks=[{name='profiler', evry=3}]", "", "hooks = penstock.hooks:profiler has no setting evry, only every. Did "
     "you mean every?"),
    ("hooks=[{name='profiler', folder='x'}]", "", "hooks = penstock.hooks:profiler has no setting folder, only every. "
     "Check the name."),
    ("hooks=['PLACE']", "from penstock import Hook\n\n\nclass part(Hook):\n    def __init__(self, minutes):\n        pass\n",
     "hooks = PLACE, line 4: the parameter minutes has no default, and Penstock passes only folder. Rename it, or give it a default."),
    ("optimizer.name=PLACE", "def part(weights, lr):\n    pass\n", "optimizer.name = PLACE, line 1: the parameter weights "
     "has no default, and Penstock passes only params, lr, momentum, weight_decay. Rename it, or give it a default."),
    ("train.metrics=['PLACE']", "class part:\n    def __init__(self, names):\n        pass\n", "train.metrics = PLACE, line 1: "
     "the parameter names has no default, and Penstock passes only classes, ignore. Rename it, or give it a default."),
    ("task=PLACE", "part = 3\n", "task = PLACE: expected a subclass of penstock.Task with the attribute `kind`, "
     "the kind of its records, found 3. Derive the class from penstock.Task, and write kind = YourKind()."),
    ("loss.custom=PLACE", "def part(logits, target, ignore):\n    return logits.mean()\n",
     "loss.custom = PLACE: expected one number for each image, of shape (2,), found a tensor of shape (). Take the mean "
     "over everything but the first axis."),
    ("train.best_metric=iou", "", "train.best_metric: expected one of mean_iou, pixel_accuracy, found iou. Choose one of "
     "these scores, such as mean_iou."),
]  # fmt: skip
"""What is wrong with a part and shows before a run folder is made: setting, file, message."""

WHEN_MADE = [
    ("optimizer.name=PLACE", "def part(params):\n    return 3\n", "optimizer.name = PLACE: expected a torch.optim.Optimizer, found int. Name a "
     "class of optimizers, or a function that gives one."),
]  # fmt: skip
"""What shows once the part is made, or used."""


@pytest.mark.parametrize(("setting", "text", "message"), BEFORE_A_RUN + WHEN_MADE)
def test_what_is_wrong_with_a_part_is_named(packed, tmp_path, setting, text, message):
    (tmp_path / "part.py").write_text(text)
    place = f"{tmp_path}/part.py:part"
    with pytest.raises(RecipeError) as caught:
        train(apply(recipe(packed.folder, steps=1), [setting.replace("PLACE", place)]), tmp_path / "runs")

    found = str(caught.value).replace("code/part.py:part", place)
    assert found.replace(f"{tmp_path}/runs/0001-unet-test_resnet-{packed.name}/", "") == message.replace("PLACE", place)
    assert (tmp_path / "runs").exists() == ((setting, text, message) in WHEN_MADE)


def test_the_line_of_a_failing_import_is_one_of_the_users_file(tmp_path):
    """Though a file of the library, which raises the error, has the same name."""
    file = tmp_path / "hook.py"
    file.write_text(
        "from penstock import Hook\n\n\nclass Own(Hook):\n    def after_stpe(self, session):\n        pass\n"
    )
    with pytest.raises(RecipeError) as caught:
        custom.load(custom.ImportPath(str(file), "Own"), "hooks")

    assert str(caught.value) == (
        f"hooks = {file}:Own, line 4: the import fails with TypeError: {file}, line 5: Own.after_stpe is not a method of "
        "penstock.Hook. A hook can override on_start, change_batch, before_step, after_backward, after_step, after_save, "
        "after_eval, on_nonfinite, "
        "on_exception, on_end. Fix the file."
    )


def test_a_part_that_is_given_at_a_resume_is_checked_before_it_trains(packed, tmp_path):
    folder, _ = train(recipe(packed.folder, steps=2), tmp_path / "runs")
    (tmp_path / "part.py").write_text("class part:\n    state = 0\n")
    with pytest.raises(RecipeError) as caught:
        resume(folder.path, ["train.steps=4", f"train.metrics=['{tmp_path}/part.py:part']"])

    assert str(caught.value) == (
        f"train.metrics = {tmp_path}/part.py:part: expected an object with state, update, compute, found one without "
        "update, compute. Add them."
    )
    assert len(folder.metrics.read_text().splitlines()) == 3


def test_a_module_is_named_too(packed, tmp_path):
    place = "segmentation_models_pytorch.encoders:get_encoder_names"
    assert callable(custom.load(custom.import_path_of(place), "x"))
    with pytest.raises(RecipeError) as caught:
        custom.load(custom.import_path_of("no_such.module:part"), "model.name")

    assert str(caught.value) == (
        "model.name = no_such.module:part: expected a module no_such.module that can be imported, found no module no_such. "
        "Install it, or name a file: FILE.py:NAME."
    )
