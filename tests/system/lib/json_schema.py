"""The part of JSON Schema (draft 2020-12) that `cifar-train config schema` uses."""
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name in ("number", "integer"):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def same(a, b):
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def problems(schema, value, where="$"):
    """The value's errors, one a line."""
    if schema is True or schema == {}:
        return []
    found = []

    def wrong(what):
        found.append("%s: %s" % (where, what))

    unknown = set(schema) - {"$schema", "$comment", "title", "description", "default", "deprecated", "type", "enum", "const",
                             "pattern", "minLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "anyOf",
                             "allOf", "not", "if", "then", "properties", "patternProperties", "additionalProperties",
                             "propertyNames", "required", "items", "minItems", "maxItems", "minProperties",
                             "maxProperties", "x-resume_may_change"}
    assert not unknown, unknown
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, name) for name in types):
        wrong("is no %s" % " or ".join(types))
    if "enum" in schema and not any(same(value, v) for v in schema["enum"]):
        wrong("is none of %s" % schema["enum"])
    if "const" in schema and not same(value, schema["const"]):
        wrong("is not %r" % schema["const"])
    if "not" in schema and not problems(schema["not"], value):
        wrong("is not welcome")
    if isinstance(value, str):
        if "pattern" in schema and not re.search(schema["pattern"], value):
            wrong("does not match %s" % schema["pattern"])
        if len(value) < schema.get("minLength", 0):
            wrong("is too short")
    if is_type(value, "number"):
        for key, holds in [("minimum", lambda m: value >= m), ("maximum", lambda m: value <= m),
                           ("exclusiveMinimum", lambda m: value > m), ("exclusiveMaximum", lambda m: value < m)]:
            if key in schema and not holds(schema[key]):
                wrong("%s %s" % (key, schema[key]))
    if "anyOf" in schema:
        tried = [problems(option, value, where) for option in schema["anyOf"]]
        if all(tried):
            wrong("fits none of several: %s" % tried)
    for part in schema.get("allOf", []):
        found += problems(part, value, where)
    if "if" in schema and not problems(schema["if"], value):
        found += problems(schema["then"], value, where)
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            wrong("has %d items" % len(value))
        for i, item in enumerate(value):
            found += problems(schema.get("items", True), item, "%s[%d]" % (where, i))
    if isinstance(value, dict):
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            wrong("has %d keys" % len(value))
        for key in schema.get("required", []):
            if key not in value:
                wrong("lacks %s" % key)
        for key, item in value.items():
            inside = "%s.%s" % (where, key)
            found += problems(schema.get("propertyNames", True), key, inside)
            known = [schema["properties"][key]] if key in schema.get("properties", {}) else []
            known += [s for p, s in schema.get("patternProperties", {}).items() if re.search(p, key)]
            for option in known:
                found += problems(option, item, inside)
            if not known and schema.get("additionalProperties", True) is False:
                found.append("%s: is no key" % inside)
            elif not known and isinstance(schema.get("additionalProperties"), dict):
                found += problems(schema["additionalProperties"], item, inside)
    return found
