"""Writes forecasts.json: what NNI 3.0's Curvefitting foresees for step 40 of sixty
learning curves, null where it foresees nothing, and the truth.

    python3 forecasts.py > forecasts.json
"""

import json
import warnings

import numpy
from nni.algorithms.hpo.curvefitting_assessor.model_factory import CurveModel

warnings.simplefilter("ignore")
numpy.random.seed(0)  # of NNI's sampler
random = numpy.random.RandomState(1)
curves = []
for number in range(60):
    steps = numpy.arange(1, [6, 10, 20][number % 3] + 1)
    top, rate = 0.5 + 0.5 * random.rand(), 0.2 + 1.3 * random.rand()
    drop = top * (0.3 + 0.6 * random.rand())
    values = [round(float(y), 6) for y in top - drop * steps**-rate + 0.01 * random.randn(len(steps))]
    try:
        forecast = CurveModel(40).predict(values)
    except Exception:
        forecast = None
    forecast = None if forecast is None or not numpy.isfinite(forecast) else round(float(forecast), 6)
    curves.append({"values": values, "truth": round(float(top - drop * 40**-rate), 6), "nni": forecast})
print("[" + ",\n ".join(json.dumps(curve) for curve in curves) + "]")
