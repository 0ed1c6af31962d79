"""A detector as a web service: `MODEL=model.onnx uvicorn serve:app`, then POST the bytes of an image to /predict."""

import io
import json
import os

import numpy as np
import onnxruntime
from fastapi import FastAPI, Request
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(os.environ.get("MODEL", "model.onnx"))
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
app = FastAPI()


@app.post("/predict")
async def predict(request: Request):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(await request.body()))).convert("RGB")
    boxes, scores, labels = session.run(["boxes", "scores", "labels"], {"image": np.asarray(image)})
    found = zip(labels, scores, boxes, strict=True)
    return [{"class": classes[label], "score": float(score), "box": box.tolist()} for label, score, box in found]
