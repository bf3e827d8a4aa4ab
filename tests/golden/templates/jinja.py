#!/usr/bin/env python3
"""Templates on single features of Jinja2 beyond synthetic.jsonl, rendered by Jinja2 itself.

    pip install jinja2==3.1.6 && python3 jinja.py > jinja.jsonl
"""
import json

from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = {
    "varargs": "{% macro m(a, b=7) %}{{a}}|{{b}}|{{varargs}}|{{kwargs}}{% endmacro %}"
               "{{ m(1) }};{{ m(1,2,3,4) }};{{ m(b=2, c=3, a=1) }};{{ m(1, z='q') }}",
    "varargs_recursive": "{% macro m() %}{{ varargs|length }}{% if varargs %} {{ m(*varargs[1:]) }}{% endif %}"
                         "{% endmacro %}{{ m(1,2,3) }}",
    "varargs_caller": "{% macro w(t) %}<{{t}}{% for k, v in kwargs.items() %} {{k}}={{v}}{% endfor %}>{{ caller() }}"
                      "</{{t}}>{% endmacro %}\n{% call w('a', x=1) %}in{% endcall %}\n{{ w.name }}",
    "varargs_blanks": "a\n{% macro m() -%}\n  {{ varargs[0] }}\n{%- endmacro %}\nb {{ m(5) }}\n"
                      "{% macro n() %}{{ my_varargs }}{% endmacro %}c{{ n() }}",
    "varargs_nested": "{% macro outer() %}{% macro inner(x) %}[{{x}}{{ varargs|join }}]{% endmacro %}"
                      "{{ inner(1, 2, 3) }}{% endmacro %}{{ outer() }}",
    "varargs_declared": "{% macro f(kwargs) %}{{ kwargs.x }}{% endmacro %}{{ f({'x': 1}) }}{% macro g(varargs=3) %}{{ varargs }}{% endmacro %}"
                        "{{ g() }}{{ g(5) }}",
    "cycler": "{% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set _ = c.reset() %}"
              "{{ c.next() }}",
    "truncate": "{{ 'a long sentence here'|truncate(10, true) }} {{ 'a long sentence here'|truncate(10, false, '~', 0) }} "
                "{{ 'a long sentence here'|truncate(10, end='!', leeway=0) }} {{ 'short'|truncate(3, true, '', 0) }}",
}

environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
for name, template in TEMPLATES.items():
    print(json.dumps({"id": f"jinja/{name}", "template": template, "rendered": environment.from_string(template).render()}))
