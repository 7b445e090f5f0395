"""Makes cases_python.json: templates with what Jinja2 makes of them, set up as transformers does.

    python3 cases.py > cases_python.json     # with Jinja2 3.1

These are templates on which npm's @huggingface/jinja, of cases.mjs, differs from the Python library or gives up.
"""
import datetime
import json
import sys

import jinja2.ext
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def raise_exception(message):
    raise TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


NOW = datetime.datetime(2026, 3, 7, 9, 5)
env = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
env.filters["tojson"] = tojson
env.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime)

TEMPLATES = {
    "print": "{{ true }}|{{ none }}|{{ ['a', 1, 2.0, \"it's\", none] }}|{{ {'k': ('t',), 2: [] } }}|{{ 1e20 }}|{{ 1.5e-7 }}|"
    "{{ 3.0 }}|{{ () }}|{{ 'é\\n' }}|{{ ['é\\n\\x07'] }}|{{ nope }}|{{ [nope] }}",
    "scopes": "{% set a = 1 %}{% for x in [1, 2] %}{% set a = a + x %}{{ a }},{% endfor %}{{ a }}",
    "loop/text": "{% for x in 'aé' %}{{ loop.index }}{{ x }}{{ loop.cycle('-', '+') }}{{ loop.changed(1) }}{% endfor %}",
    "loop/recursive": "{% for x in [1, [2, [3]], 4] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}"
    "{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}",
    "loop/target": "{% for k, (a, b) in [[1, [2, 3]]] %}{{ k }}{{ a }}{{ b }}{% endfor %}",
    "methods": "{{ 'hello World'.capitalize() }}|{{ 'they\\'re Bill'.title() }}|{{ 'a b c'.rsplit(' ', 1) }}|"
    "{{ ' a b  c '.split(none, 1) }}|{{ ' a b  c '.rsplit(none, 1) }}|{{ 'abc'.find('c') }}|{{ 'éc'.rfind('x') }}|"
    "{{ 'a\\nb\\r\\nc'.splitlines() }}|{{ 'xxaxx'.strip('x') }}|{{ 'a'.center(4, '*') }}{{ 'ab'.center(5, '*') }}|"
    "{{ '-5'.zfill(4) }}|{{ '7'.rjust(3) }}{{ '7'.ljust(3) }}|{{ 'k=v=w'.partition('=') }}{{ 'k=v=w'.rpartition('=') }}|"
    "{{ 'a1'.isalnum() }}{{ '12'.isdigit() }}{{ 'a'.isupper() }}|{{ '-'.join(['a', 'b']) }}|"
    "{{ 'prefix'.removeprefix('pre') }}|{{ '{} {x} {{}}'.format(1, x=2) }}|{{ 'aXa'.count('a') }}|{{ 'aBc'.swapcase() }}",
    "mapping": "{{ {'items': 1}.items() | list }}|{{ {'items': 1}['items'] }}|{{ {'a': {'b': 1}}.a.b }}|"
    "{{ {1: 'x'}[1] }}{{ {1: 'x'}[true] }}|{{ dict(a=1, b=2) }}|{{ dict({'a': 1}, c=3) }}|{{ {'b': 1, 'a': 2} | dictsort }}",
    "tests": "{{ 1 is divisibleby 2 }}|{{ 'a' in {'a': 1} }}|{{ 3 is odd }}|{{ 1 is eq 1 }}|{{ 'a' is in ['a'] }}|"
    "{{ true is number }}|{{ true is integer }}|{{ 'A' is upper }}|{{ {} is sequence }}|{{ nope is iterable }}|"
    "{{ 1 is sameas 1 }}|{{ 2 is gt 1 }}|{{ not 1 is defined }}|{{ namespace is callable }}",
    "filters": "{{ [3, 1] | sort | list }}|{{ ['b', 'A'] | sort(case_sensitive=true) }}|{{ ['a'] | map('upper') | list }}|"
    "{{ 'x y' | replace(' ', '_', 1) }}|{{ 2.567 | round(2) }}|{{ 2.5 | round }}|{{ 7.1 | round(0, 'ceil') }}|"
    "{{ '3.7' | int }}{{ 'x' | int(9) }}|{{ '1.5' | float }}|{{ [1, 2, 3] | sum }}|{{ [1, 5, 3] | max }}{{ [4, 2] | min }}|"
    "{{ [1, 2, 3] | batch(2, 0) | list }}|{{ 'abc' | reverse }}|{{ [1, 2] | reverse | list }}|{{ '<a&\"' | e }}|"
    "{{ 'foo bar' | title }}|{{ 'hELLO' | capitalize }}|{{ 'abc' | list }}|{{ ' x ' | trim }}{{ 'xax' | trim('x') }}|"
    "{{ '%s-%03d-%.1f' | format('a', 7, 2.25) }}|{{ 'a b  c' | wordcount }}|{{ {'a': 1} | items | list }}|"
    "{{ [{'k': 'x', 'v': 1}, {'k': 'y', 'v': 2}, {'k': 'x', 'v': 3}] | groupby('k') | map(attribute='0') | list }}|"
    "{{ [{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b') | map(attribute='a.b') | join(',') }}|"
    "{{ 'ab' | center(6) }}|{{ none | default('d') }}|{{ [1, none] | select | list }}|{{ ['aa', 'AA'] | unique | list }}|"
    "{{ 'one two three four' | truncate(9, true) }}|{{ 'one two three four' | truncate(12, leeway=0) }}",
    "arithmetic": "{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7.5 // 2 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ 6 / 3 }}|{{ 'ab' * 2 }}|{{ [1] * 2 }}|"
    "{{ true + 1 }}|{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 'a' < 'b' }}|{{ -2 | abs }}|{{ 1 == 1.0 }}|{{ 1 ~ none }}|{{ -3 ** 2 }}",
    "slices": "{{ [1, 2, 3, 4][::-2] }}|{{ 'abc'[5:] }}|{{ 'abcdef'[-100:2] }}|{{ 'abc'[::-1][0] }}|{{ (1, 2, 3)[1:] }}|{{ 'abc'[-1] }}|"
    "{{ [1, 2, 3][-5:-1] }}|{{ 'abcdef'[4:-5:-1] }}|{{ [1][9] }}|{{ 'abcdef'[none:2] }}|{{ 'abcdef'[-1:-4:-1] }}|{{ 'ab'[-9::-1] }}",
    "macros": "{% macro m(a, b='x') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}|{{ m(1, 2, 3, z=4) }}|"
    "{{ m(*[5, 6]) }}|{{ m(**{'a': 7, 'b': 8}) }}|{{ m() }}",
    "call": "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}"
    "{% call(x, i) each(['a', 'b']) %}{{ i }}{{ x }}{% endcall %}",
    "with": "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set a = 3 %}{{ a }}{% endwith %}{{ a }}",
    "raw": "a{% raw %}\n  {{ x }} {% if %}\n  {% endraw %}\nb{%- raw -%} {# c #} {%- endraw -%} d",
    "spaces": "a\n  {%+ if true %}\n b{% endif +%}\n  {# c #}\n\t{%- if true %} d\n\n{% endif %}\n {{ 1 }}\n e {% if true -%}\n f{% endif %}\n\n",
    "spaces/minus": "x \n {{- 1 -}} \n y \n{#- c -#}\n z \r\n w",
    "set block": "{% set a | upper | trim %} b{{ 1 }} {% endset %}[{{ a }}]{% set ns = namespace({'k': 1}, j=2) %}"
    "{% set ns.z %}y{% endset %}{{ ns.k }}{{ ns.j }}{{ ns.z }}",
    "strings": "{{ 'a\\x41\\u00e9\\101\\q' }}|{{ \"b\\\"\" }}|{{ 'two\nlines' }}|{{ 'a' \"b\" }}",
    "clock": "{{ strftime_now('%A %a %d %-d %e %j %y %I:%M %p %H%%') }}",
    "json": "{{ {'a': 1.0, 'b': [true, none, 1e30], 3: 'x'} | tojson }}|{{ [] | tojson(indent=2) }}|{{ {'z': {}, 'a': [1]} | "
    "tojson(indent=2, sort_keys=true) }}|{{ '</é\\u2028' | tojson }}|{{ [1, 2] | tojson(separators=(',', ':')) }}|{{ (1, 2) | tojson }}",
    "conditions": "{{ 'x' if nope is defined }}|{{ nope or 'd' }}|{{ [] and 1 }}|{{ 0 or none }}|{{ not nope }}|{{ nope == nope2 }}|"
    "{{ 1 in [1.0] }}|{{ 'b' not in 'abc' }}|{{ (1, 2) == [1, 2] }}",
    "nothing selected": "{{ none | selectattr('a') | list }}{{ none | map('upper') | list }}{{ 5 | round(1) }}{{ true | round }}",
    "cut of a number": "{% set n = 5 %}{{ n[1:] }}",
    "attribute of nothing": "{{ nope.more }}",
    "element of nothing": "{{ nope['more'] }}",
    "text and number": "{{ 'a' + 1 }}",
    "not a list": "{% for x in 5 %}{% endfor %}",
    "changed": "{{ [1].append(2) }}",
    "no zero": "{{ 1 % 0 }}",
    "unknown filter": "{{ 1 | nonsense }}",
    "unknown test": "{{ 1 is nonsense }}",
    "not a namespace": "{% set a = {} %}{% set a.b = 1 %}",
    "range too large": "{{ range(1000000) | length }}",
    "unpacked": "{% set a, b = [1] %}",
    "include": "{% include 'x' %}",
    "private": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
}

cases = []
for name, template in TEMPLATES.items():
    case = {"name": name, "template": template, "context": {}}
    try:
        case["want"] = env.from_string(template).render()
    except Exception as e:
        case["error"] = str(e) or type(e).__name__
    cases.append(case)
json.dump(cases, sys.stdout, ensure_ascii=False, indent=1)
print()
