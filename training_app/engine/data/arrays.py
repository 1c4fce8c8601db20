"""The names of the arrays that the engine passes around. numpy only."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
