"""What a run's model is asked: predictions, scores, exports.

model.py       a run's model, ready to predict and to be evaluated
inputs.py      what there is to predict: images, folders, lists, videos
predict.py     predictions for images
other_inputs.py  predictions for what is no image, which extensions bring
writing.py     predictions as files
evaluation.py  the scores of a model on a split
per_image.py   what it reaches on each image of an evaluation
export.py      a model as one file for other programs
comparing.py   how the predictions of such a file differ from those of the model
"""

from penstock.inference.evaluation import Evaluation, evaluate_run, evaluation_name
from penstock.inference.export import Exported, export, export_run
from penstock.inference.model import TrainedModel, load_model
from penstock.inference.predict import predict_images

__all__ = [
    "Evaluation",
    "Exported",
    "TrainedModel",
    "evaluate_run",
    "evaluation_name",
    "export",
    "export_run",
    "load_model",
    "predict_images",
]
