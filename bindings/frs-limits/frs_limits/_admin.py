"""`reset` of a storage: the admin plane makes the counters of a business fresh."""

import urllib.parse
import urllib.request

from ._calls import Calls
from ._options import Options


def reset(options: Options, calls: Calls) -> None:
    if options.admin is None:
        raise NotImplementedError(
            "reset needs the option admin, such as http://127.0.0.1:7601, and admin_token"
        )
    headers = {"Authorization": f"Bearer {options.admin_token}"} if options.admin_token else {}
    for biz in (calls.fixed, calls.moving, calls.counter):
        url = f"{options.admin.rstrip('/')}/biz/{urllib.parse.quote(biz, safe='')}/reset"
        request = urllib.request.Request(url, method="POST", headers=headers)
        with urllib.request.urlopen(request, timeout=options.timeout):
            pass
