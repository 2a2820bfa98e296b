"""Writes onnx-schemas-VERSION.txt: every form of every operator of ONNX's own
domains for all its opsets. A line is

    domain.Name since inputs outputs attribute…

where inputs and outputs are least..most (* is any number), and an attribute is
name:kind, with =default if it has one, or ! if it must be given.

    pip install onnx==1.23.2
    python onnx-schemas.py > onnx-schemas-1.23.2.txt
"""

import onnx
from onnx import defs, helper

OLDEST = 1


def count(least, most):
    return f"{least}..{'*' if most > 1000 else most}"


def attribute(name, a):
    text = f"{name}:{str(a.type).split('.')[-1].lower()}"
    if a.required:
        return text + "!"
    if a.default_value.name:
        value = helper.get_attribute_value(a.default_value)
        if isinstance(value, bytes):
            value = value.decode()
        text += "=" + str(value).replace(" ", "")
    return text


def main():
    forms = {}
    for s in defs.get_all_schemas_with_history():
        if s.domain in ("", "ai.onnx.preview.training") and not s.deprecated:
            forms.setdefault((s.domain, s.name), []).append(s)
    for (domain, name), schemas in sorted(forms.items()):
        schemas.sort(key=lambda s: s.since_version)
        for i, s in enumerate(schemas):
            later = schemas[i + 1].since_version if i + 1 < len(schemas) else None
            if domain == "" and later is not None and later <= OLDEST:
                continue
            fields = [f"{domain}.{name}" if domain else name, str(s.since_version)]
            fields += [count(s.min_input, s.max_input), count(s.min_output, s.max_output)]
            fields += [attribute(n, a) for n, a in sorted(s.attributes.items())]
            print(" ".join(fields))


main()
