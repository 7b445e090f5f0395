// Makes cases.json: templates with what npm's @huggingface/jinja makes of them. To make it again, in an empty folder:
//
//   npm install @huggingface/jinja@0.5.11
//   TZ=UTC LANG=C node PATH/cases.mjs > PATH/cases.json
//
// The templates are ours; they use what the published ones of Granite 4, Falcon-H1, LFM2, Nemotron-H, Codestral Mamba,
// Jamba and Zamba2 use. Where that package and the Python library differ (true and True, how a list prints), hippo
// follows Python: such things are in cases.py.
import { createRequire } from "node:module";
const { Template } = createRequire(process.cwd() + "/")("@huggingface/jinja");

// The clock that strftime_now reads.
const RealDate = Date;
globalThis.Date = class extends RealDate {
  constructor(...args) {
    super(...(args.length ? args : ["2026-03-07T09:05:00Z"]));
  }
};

const chat = [
  { role: "user", content: "Hi there" },
  { role: "assistant", content: "Hello. How can I help?" },
  { role: "user", content: "  What is 2 + 2?\n" },
];
const withSystem = [{ role: "system", content: "You are brief." }, ...chat];
const tools = [
  {
    type: "function",
    function: {
      name: "weather",
      description: "The weather in a \"city\" – now",
      parameters: {
        type: "object",
        properties: { city: { type: "string", description: "its name" }, unit: { type: "string", enum: ["C", "F"] } },
        required: ["city"],
      },
    },
  },
  { type: "function", function: { name: "now", description: "the time", parameters: { type: "object", properties: {} } } },
];
const withCalls = [
  { role: "user", content: "Weather in Zürich?" },
  {
    role: "assistant",
    content: "",
    tool_calls: [
      { id: "call_1", type: "function", function: { name: "weather", arguments: { city: "Zürich", days: 2, far: false } } },
      { id: "call_2", type: "function", function: { name: "now", arguments: "{\"zone\": null}" } },
    ],
  },
  { role: "tool", name: "weather", content: "12 °C" },
  { role: "tool", name: "now", content: "09:05" },
  { role: "assistant", content: "<think>easy</think> It is 12 °C." },
];
const parts = [
  { role: "user", content: [{ type: "text", text: "What is this?" }, { type: "image" }, { type: "text", text: "Say." }] },
];
const documents = [
  { doc_id: 1, title: "Whales", text: "They are large." },
  { doc_id: 2, title: "Ships", text: "They float." },
];

const chatml = `{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{% endif %}
`;

// Roles in marks, a system message made of parts, tools and documents in lines, a namespace that gathers.
const roles = `
{%- set tools_text = 'Tools:\\n<tools>' %}
{%- for tool in tools or [] %}
    {%- set tools_text = tools_text + 'lost' %}
{%- endfor %}
{%- set ns = namespace(system='', last=0) %}
{%- if messages[0].role == 'system' %}
    {%- set ns.system = messages[0].content %}
    {%- set messages = messages[1:] %}
{%- endif %}
{%- if tools %}
    {%- set ns.system = ns.system + ('\\n\\n' if ns.system else '') + tools_text %}
    {%- for tool in tools %}
        {%- set ns.system = ns.system ~ '\\n' ~ (tool | tojson) %}
    {%- endfor %}
    {%- set ns.system = ns.system + '\\n</tools>' %}
{%- endif %}
{%- if documents %}
    {%- for document in documents %}
        {%- set ns.system = ns.system + '\\n' + (document | tojson) %}
    {%- endfor %}
{%- endif %}
{%- if ns.system %}
    {{- '<|start|>system<|end|>' + ns.system + '<|eot|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- set content = namespace(val='') %}
    {%- if message.content is string %}
        {%- set content.val = message.content %}
    {%- elif message.content is iterable %}
        {%- for entry in message.content %}
            {%- if entry.type == 'text' %}
                {%- set content.val = content.val + entry.text %}
            {%- else %}
                {%- set content.val = content.val + '<' ~ entry.type ~ '>' %}
            {%- endif %}
        {%- endfor %}
    {%- endif %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|start|>' + message.role + '<|end|>' + content.val + '<|eot|>\\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|start|>assistant<|end|>' + content.val }}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and content.val) or (not loop.first) %}{{- '\\n' }}{%- endif %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<call>{"name": "' + call.name + '", "arguments": ' }}
                {%- if call.arguments is string %}{{- call.arguments }}{%- else %}{{- call.arguments | tojson }}{%- endif %}
                {{- '}</call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|eot|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|start|>user<|end|>' }}{%- endif %}
        {{- '\\n<response>' + content.val + '</response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|eot|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant<|end|>' }}{%- endif %}
`;

// Switches in the text of messages, thoughts cut away, the last turn looked at first.
const thinking = `
{%- set ns = namespace(think=true) -%}
{%- for message in messages -%}
  {%- if message['role'] in ['user', 'system'] -%}
    {%- if '/think' in message['content'] -%}{%- set ns.think = true -%}
    {%- elif '/no_think' in message['content'] -%}{%- set ns.think = false -%}{%- endif -%}
  {%- endif -%}
{%- endfor -%}
{{- bos_token + 'System\\n' -}}
{%- set rest = messages[1:] if messages[0]['role'] == 'system' else messages -%}
{%- if messages[0]['role'] == 'system' -%}
  {{- (messages[0]['content'] | default('', true)).replace('/think', '').replace('/no_think', '').strip() -}}
{%- endif -%}
{{- '\\n' -}}
{%- for message in rest %}
  {%- set content = message['content'] %}
  {%- if message['role'] == 'assistant' and content and '</think>' in content -%}
    {%- set content = (content.split('</think>')[1] | default('', true)).strip() %}
  {%- endif -%}
  {{- '<' ~ message.role | upper ~ '>' ~ (content | default('', true)).strip() -}}
  {%- if message.tool_calls is defined and message.tool_calls | length > 0 -%}
    {{- ' ' ~ message.tool_calls | map(attribute='function.name') | join(', ') -}}
  {%- endif -%}
  {{- '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<ASSISTANT>' -}}
  {%- if ns.think is defined and ns.think is false -%}{{- '<think></think>' -}}{%- else -%}{{- '<think>\\n' -}}{%- endif -%}
{%- endif -%}
`;

// Turns must alternate; what else a template refuses.
const strict = `{{ bos_token }}{% set loop_messages = messages %}
{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set loop_messages = messages[1:] %}{% endif %}
{% for message in loop_messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + (system + '\\n\\n' if system is defined and loop.first else '') + message['content'].strip() + ' [/INST]' }}
{% elif message['role'] == 'assistant' %}
{{ ' ' + message['content'] | trim + eos_token }}
{% else %}{{ raise_exception('Only user and assistant roles are supported, not ' ~ message.role) }}{% endif %}
{% endfor %}
`;

// Macros: defaults, arguments by name, one that calls itself, one that another hands a text, call blocks.
const macros = `
{%- macro field(name, value, sep=': ', last=false) -%}
{{ name }}{{ sep }}{{ value }}{% if not last %}, {% endif %}
{%- endmacro -%}
{%- macro kind(spec, depth=0) -%}
  {%- if spec.type == 'object' -%}
    {
    {%- for name, sub in spec.properties.items() -%}
      {{ name }}{{ '' if name in (spec.required or []) else '?' }}: {{ kind(sub, depth + 1) }}{% if not loop.last %}, {% endif %}
    {%- endfor -%}
    }@{{ depth }}
  {%- elif spec.enum -%}
    {{ spec.enum | join('|') }}
  {%- else -%}
    {{ spec.type }}
  {%- endif -%}
{%- endmacro -%}
{%- macro boxed(title) -%}[{{ title }}: {{ caller() }}]{%- endmacro -%}
{{ field('a', 1) }}{{ field(value=2, name='b', last=true) }}{{ field('c', 3, sep='=') }}
{% for tool in tools %}
{{ tool.function.name }}({{ kind(tool.function.parameters) }})
{% endfor %}
{% call boxed('note') %}inside {{ tools | length }}{% endcall %}
`;

const spaces = `a
  {% if true %}
  b
  {% endif %}
c {% if true %} d {% endif %} e
    {#  gone  #}
f {{- ' g ' -}} h
  {%- if true -%}
  i
  {%- endif -%}
j

{% for x in [1, 2] %}
  {{ x }}
{% endfor %}


k {# -#} l
{# one
   two #}
m
`;

const cases = [];
function add(name, template, context = {}) {
  context = { messages: chat, add_generation_prompt: false, bos_token: "<s>", eos_token: "</s>", ...context };
  const c = { name, template, context };
  try {
    c.want = new Template(template).render(structuredClone(context));
  } catch (e) {
    c.error = e.message;
  }
  cases.push(c);
}

for (const prompt of [false, true]) {
  const more = { add_generation_prompt: prompt };
  add(`chatml/${prompt}`, chatml, more);
  add(`roles/${prompt}`, roles, more);
  add(`roles/system/${prompt}`, roles, { ...more, messages: withSystem });
  add(`roles/tools/${prompt}`, roles, { ...more, messages: withCalls, tools });
  add(`roles/documents/${prompt}`, roles, { ...more, messages: withSystem, documents });
  add(`roles/parts/${prompt}`, roles, { ...more, messages: parts });
  add(`thinking/${prompt}`, thinking, { ...more, messages: withCalls });
  add(`thinking/off/${prompt}`, thinking, { ...more, messages: [{ role: "system", content: "Be brief /no_think" }, ...chat] });
}
add("strict", strict);
add("strict/system", strict, { messages: withSystem });
add("strict/refused", strict, { messages: [chat[1], chat[0]] });
add("strict/role", strict, { messages: [chat[0], { role: "tool", content: "" }] });
add("macros", macros, { tools });
add("spaces", spaces);
add("spaces/crlf-free end", "a\n\n");
add("raise", "{{ raise_exception('no: ' ~ messages | length) }}");
add("clock", "{{ strftime_now('%Y-%m-%d %H:%M %b %B %d%%') }}");
add("clock/if defined", "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}");
add("generation", "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.role }}:{% endif %}{% endfor %}");
add("tojson", "{{ tools | tojson }}|{{ tools[0].function | tojson(indent=2) }}|{{ tools | tojson(indent=4) }}|{{ {'a': [], 'b': {}} | tojson(indent=1) }}", { tools });
add("tojson/ascii", "{{ tools[0].function.description | tojson(ensure_ascii=True) }}|{{ '\u{1f600}é\\u0001\\t<b>\\'' | tojson(ensure_ascii=true) }}|{{ '\u{1f600}é<b>&\\'' | tojson }}", { tools });
add("tojson/separators", "{{ tools[1] | tojson(separators=(',', ':')) }}|{{ tools[1] | tojson(sort_keys=true) }}", { tools });
add("loop", "{% for x in [7, 8, 9] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ 'F' if loop.first else 'L' if loop.last else '-' }}{{ loop.length }}{{ x }} {% endfor %}");
add("loop/neighbors", "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '^' }}>{{ loop.nextitem.role if loop.nextitem is defined else '$' }} {% endfor %}");
add("loop/else", "{% for x in [] %}x{% else %}none{% endfor %}{% for x in [1] %}x{% else %}none{% endfor %}");
add("loop/if", "{% for m in messages if m.role == 'user' %}{{ loop.index }}/{{ loop.length }}:{{ m.content | trim }};{% endfor %}");
add("loop/break", "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}");
add("loop/pairs", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }},{% endfor %}");
add("slices", "{{ 'abcdef'[1:4] }}|{{ 'abcdef'[::-1] }}|{{ 'abcdef'[-2:] }}|{{ 'abcdef'[:-2] }}|{{ 'abcdef'[::2] }}|{{ 'abcdef'[4:1:-1] }}|{{ [1, 2, 3, 4][::-1] | join(',') }}|{{ [1, 2, 3][5:] | length }}|{{ messages[::-1][0].role }}|{{ messages[-1].role }}|{{ 'aé😀b'[1:3] }}");
add("methods", "{{ '  a b '.strip() }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'a,b,,c'.split(',') | join(';') }}|{{ ' a  b '.split() | join(';') }}|{{ 'a-b-c'.split('-', 1) | join(';') }}|{{ 'Hello'.startswith('He') and 'Hello'.endswith('lo') and 'yes' }}|{{ 'abcabc'.replace('b', 'X') }}|{{ 'abcabc'.replace('b', 'X', 1) }}|{{ 'aB'.upper() }}{{ 'aB'.lower() }}|{{ 'hello world'.title() }}|{{ 'hello'.capitalize() }}");
add("methods/mapping", "{{ {'a': 1}.get('a') }}|{{ {'a': 1}.get('b', 7) }}|{{ {'a': 1, 'b': 2}.keys() | join(',') }}|{{ {'a': 1, 'b': 2}.values() | join(',') }}|{{ 'y' if {'a': 1}.get('b') is none else 'n' }}|{{ messages[0].get('content') }}|{% for k, v in messages[0] | dictsort %}{{ k }}:{{ v }};{% endfor %}");
add("tests", "{% for x in [1, 1.5, 'a', none, true, [1], {'a': 1}, undefined_name] %}{{ 'S' if x is string }}{{ 'I' if x is integer }}{{ 'N' if x is none }}{{ 'M' if x is mapping }}{{ 'B' if x is boolean }}{{ 'D' if x is defined }}{{ 'U' if x is undefined }}{{ 'T' if x is true }},{% endfor %}");
add("conditions", "{{ 'a' if false else 'b' if false else 'c' }}|{{ (none or 'x') }}|{{ ('' and 'x') or 'e' }}|{{ 'n' if not not [] else 'y' }}|{{ ('a' if true) }}|{{ ('a' if false) }}|{{ [] or {} or 0 or 'last' }}");
add("sets", "{% set x %}a{{ 1 + 1 }}{% endset %}{{ x | upper }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set d = {'k': [1, {'z': 'deep'}]} %}{{ d.k[1].z }}{{ d['k'][1]['z'] }}{{ d.k.0 }}");
add("filter block", "{% filter upper %}abc {{ 'd' }}{% endfilter %}");
add("strings", "{{ \"it's\" }}{{ 'say \"hi\"' }}{{ 'a\\\\b' }}{{ 'tab\\tnew\\nline' }}{{ '{{ not a tag }}' }}{{ '%}' }}{{ 'a' 'b' }}");
add("not closed", "{% if true %}a");
add("not known", "{% nonsense %}");
add("call of none", "{{ nothing() }}");

process.stdout.write(JSON.stringify(cases, null, 1) + "\n");
