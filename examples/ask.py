"""Ask an agent one thing; `interlock up` runs the server. python examples/ask.py claude "Which tests are slow?" """

import sys

from interlock import InterlockError, connect

if len(sys.argv) != 3:
    sys.exit(__doc__)
try:
    with connect() as il:
        print(il.run(sys.argv[1], sys.argv[2]).answer())
except InterlockError as error:  # there is no answer, and this says what is known
    sys.exit(str(error))
