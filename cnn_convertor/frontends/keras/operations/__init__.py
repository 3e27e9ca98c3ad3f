"""Functions called between layers: keras.ops of Keras 3, and TensorFlow's in files of Keras 2.

Importing it enters their readers in the registry.
"""

from cnn_convertor.frontends.keras.operations import functions as functions
from cnn_convertor.frontends.keras.operations import maps as maps
from cnn_convertor.frontends.keras.operations import products as products
from cnn_convertor.frontends.keras.operations import reductions as reductions
from cnn_convertor.frontends.keras.operations import scalar_arithmetic as scalar_arithmetic
from cnn_convertor.frontends.keras.operations import shapes as shapes
from cnn_convertor.frontends.keras.operations.arguments import ARGUMENTS as ARGUMENTS
from cnn_convertor.frontends.keras.operations.arguments import operation_name as operation_name
from cnn_convertor.frontends.keras.operations.functions import FUNCTIONS as FUNCTIONS
