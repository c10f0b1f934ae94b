"""Chat templates of the four shapes that a recording must be rendered with, written for these tests.

Any model can serve them: which ids the marks become is the tokenizer's affair, and the server's ids are what counts.
"""

# ruff: noqa: E501  lines of a template

CHATML = (
    "{%- for message in messages -%}"
    "{{ '<|im_start|>' + message.role + '\n' + (message.content or '') }}"
    "{%- if loop.first and tools -%}{%- for tool in tools -%}{{ '\n' + (tool | tojson) }}{%- endfor -%}{%- endif -%}"
    "{%- for call in message.tool_calls or [] -%}"
    '{{ \'\n<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{ (call.function.arguments | tojson) + '}\n</tool_call>' }}"
    "{%- endfor -%}{{ '<|im_end|>\n' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)

QWEN_XML = (
    "{%- if tools -%}{{ '<|im_start|>system\n# Tools\n<tools>' }}{%- for tool in tools -%}{{ '\n' + (tool | tojson) }}"
    "{%- endfor -%}{{ '\n</tools>\n' }}{%- if messages[0].role == 'system' -%}{{ '\n' + messages[0].content }}{%- endif -%}"
    "{{ '<|im_end|>\n' }}{%- elif messages[0].role == 'system' -%}"
    "{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'user' -%}{{ '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}"
    "{%- elif message.role == 'assistant' -%}{{ '<|im_start|>assistant\n' + (message.content or '') }}"
    "{%- for call in message.tool_calls or [] -%}"
    "{{ '\n<tool_call>\n<function=' + call.function.name + '>\n' }}"
    "{%- for key, value in call.function.arguments.items() -%}"
    "{{ '<parameter=' + key + '>\n' + (value if value is string else value | tojson) + '\n</parameter>\n' }}"
    "{%- endfor -%}{{ '</function>\n</tool_call>' }}{%- endfor -%}{{ '<|im_end|>\n' }}"
    "{%- elif message.role == 'tool' -%}"
    "{%- if loop.previtem and loop.previtem.role != 'tool' -%}{{ '<|im_start|>user' }}{%- endif -%}"
    "{{ '\n<tool_response>\n' + message.content + '\n</tool_response>' }}"
    "{%- if loop.last or loop.nextitem.role != 'tool' -%}{{ '<|im_end|>\n' }}{%- endif -%}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)

LLAMA3 = (
    "{{ '<|begin_of_text|>' }}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'tool' -%}"
    "{{ '<|start_header_id|>ipython<|end_header_id|>\n\n' + message.content + '<|eot_id|>' }}"
    "{%- elif message.tool_calls -%}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' + (message.content or '') }}"
    "{%- for call in message.tool_calls -%}"
    "{{ '{\"name\": \"' + call.function.name + '\", \"parameters\": ' + (call.function.arguments | tojson) + '}' }}"
    "{%- endfor -%}{{ '<|eot_id|>' }}"
    "{%- else -%}"
    "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content + '<|eot_id|>' }}"
    "{%- endif -%}"
    "{%- if loop.first and tools -%}"
    "{{ '<|start_header_id|>system<|end_header_id|>\n\n' }}{%- for tool in tools -%}{{ (tool | tojson) + '\n' }}{%- endfor -%}"
    "{{ '<|eot_id|>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%}"
)

GEMMA = (
    "{{ '<bos>' }}"
    "{%- if messages[0].role == 'system' -%}"
    "{{ '<start_of_turn>user\n' + messages[0].content }}"
    "{%- for tool in tools or [] -%}{{ '\n' + (tool | tojson) }}{%- endfor -%}{{ '<end_of_turn>\n' }}{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if message.role == 'assistant' -%}{{ '<start_of_turn>model\n' + (message.content or '') }}"
    "{%- for call in message.tool_calls or [] -%}"
    "{{ '\n[' + call.function.name + '(' + (call.function.arguments | tojson) + ')]' }}{%- endfor -%}{{ '<end_of_turn>\n' }}"
    "{%- elif message.role == 'tool' -%}{{ '<start_of_turn>tool\n' + message.content + '<end_of_turn>\n' }}"
    "{%- elif message.role == 'user' -%}{{ '<start_of_turn>user\n' + message.content | trim + '<end_of_turn>\n' }}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)

ALL = {"chatml": CHATML, "qwen-xml": QWEN_XML, "llama3": LLAMA3, "gemma": GEMMA}
