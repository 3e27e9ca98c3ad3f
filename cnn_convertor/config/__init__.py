"""What to convert and how, from an ini file or from arguments."""

from cnn_convertor.config.config import Config as Config
from cnn_convertor.config.config import name_of as name_of
from cnn_convertor.config.ini_file import is_model as is_model
from cnn_convertor.config.keys import KEYS as KEYS
from cnn_convertor.config.keys import LAYERS as LAYERS
from cnn_convertor.config.keys import SECTIONS as SECTIONS
from cnn_convertor.config.keys import Key as Key
from cnn_convertor.config.kinds import LONGEST_NAME as LONGEST_NAME
