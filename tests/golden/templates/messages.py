#!/usr/bin/env python3
"""What `transformers` does to messages before a template sees them: fields without a value, and the names of reasoning.

    pip install transformers==5.24.0 tokenizers jinja2==3.1.6 && python3 messages.py > messages.jsonl
"""
import json

import tokenizers
import transformers

TEMPLATES = {
    "whole": "{% for m in messages %}{{ m | tojson }}\n{% endfor %}",
    "fields": "{% for m in messages %}{{ m.role }}: {{ m.content }}|{{ m.reasoning_content }}|{{ m.thinking }}|{{ m.reasoning }}"
              "{% if 'content' in m %} has content{% endif %}{% if m.tool_calls is defined %} has calls{% endif %}\n{% endfor %}",
    "think": "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content is defined %}<think>{{ m.reasoning_content }}</think>"
             "{% endif %}{{ m.content }}{% endfor %}",
}
NAMES = ("reasoning_content", "thinking", "reasoning")


def assistants():
    yield "none", {}
    for name in NAMES:
        yield name, {name: "why"}
        yield f"null_{name}", {name: None}
        yield f"empty_{name}", {name: ""}
        yield f"false_{name}", {name: False}
        yield f"list_{name}", {name: [{"type": "text", "text": "why"}, None]}
    for first in NAMES:
        for second in NAMES:
            if first != second:
                yield f"{first}_and_{second}", {first: "one", second: "two"}
                yield f"null_{first}_and_{second}", {first: None, second: "two"}
    yield "all", {"reasoning": "three", "thinking": "two", "reasoning_content": "one"}
    yield "null_calls", {"tool_calls": None, "refusal": None, "name": None}
    yield "inner_null", {"tool_calls": [{"id": None, "type": "function", "function": {"name": "f", "arguments": {"x": None}}}]}


def cases():
    user = {"role": "user", "content": "Hi"}
    for name, fields in assistants():
        yield name, {"messages": [user, {"role": "assistant", "content": "Hello", **fields}]}
        yield f"{name}_before_content", {"messages": [user, {"role": "assistant", **fields, "content": "Hello"}]}
    yield "user", {"messages": [{"role": "user", "content": "Hi", "reasoning": "why"}]}
    yield "continued", {"messages": [user, {"role": "assistant", "content": "Hello", "reasoning": "why"}],
                        "continue_final_message": True}


def main():
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel({"x": 0}, unk_token="x")))
    for template_name, template in TEMPLATES.items():
        for name, fields in cases():
            if "continue_final_message" in fields and template_name == "whole":
                continue  # the mark's blank ends inside the JSON's quotes
            rendered = tokenizer.apply_chat_template(chat_template=template, tokenize=False, conversation=fields["messages"],
                                                     continue_final_message=fields.get("continue_final_message", False))
            print(json.dumps({"id": f"messages/{template_name}/{name}", "template": template, **fields, "rendered": rendered}))


main()
