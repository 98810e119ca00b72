"""frs as a storage of the library `limits`, and so of Flask-Limiter and slowapi.

Importing this module makes `limits` know the schemes frs, frs+unix and frs+data, and the same with
async+ before them.
"""

from ._aio import AsyncFrsStorage
from ._resp import WrongServer
from ._sync import FrsStorage

__all__ = ["AsyncFrsStorage", "FrsStorage", "WrongServer", "__version__"]

# The version of frs that the package belongs to.
__version__ = "0.1.0"
