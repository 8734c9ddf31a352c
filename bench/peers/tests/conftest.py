"""The modules of bench/peers are scripts beside each other, not a package."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
