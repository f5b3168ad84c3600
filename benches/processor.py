"""The name of this machine's processor, for the pages that benches write."""
import re
from pathlib import Path


def processor():
    """What the processor calls itself, and the vectors that it has."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "an unknown processor"
    name = re.search(r"model name\s*: (.*)", text)
    flags = re.search(r"flags\s*: (.*)", text)
    family, model = (re.search(rf"^{k}\s*: (\d+)", text, re.M) for k in ("cpu family", "model"))
    number = f", family {family[1]} model {model[1]}" if family and model else ""
    has = [f for f in ("avx2", "avx512f", "avx512_vnni") if flags and f in flags[1].split()]
    return f"{name[1] if name else 'an unknown processor'}{number} ({', '.join(has) or 'no wide vectors'})"
