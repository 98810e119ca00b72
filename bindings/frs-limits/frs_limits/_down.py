"""What a limit decides while frs does not answer, and how the log tells of it."""

import logging

from ._calls import ALLOW, REFUSE, Answer, Ask
from ._options import Options

REMEDY = ". For more uses take the strategy fixed-window, or raise most in map.xml"
log = logging.getLogger("frs_limits")


class Down:
    """Follows whether frs answers. The log has a line for each change, not for each call."""

    def __init__(self, options: Options) -> None:
        self.stand_in = {"raise": None, "allow": ALLOW, "refuse": REFUSE}[options.on_down]
        self.is_down = False

    def failed(self, ask: Ask, error: Exception, is_away: bool) -> Answer:
        """The decision in place of an answer. Raises the error if it shall be raised."""
        if self.stand_in is None or not is_away:
            if not is_away:
                remedy = REMEDY if "bad-rate" in str(error) else ""
                asked = f"asked for {ask.rate} in the business {ask.biz} of map.xml"
                error.add_note(asked + remedy)
            raise error
        if not self.is_down:
            self.is_down = True
            decision = "refused" if self.stand_in.limited else "allowed"
            log.warning("frs does not answer, so all uses are %s: %s", decision, error)
        return self.stand_in

    def answered(self) -> None:
        if self.is_down:
            self.is_down = False
            log.warning("frs answers again")
