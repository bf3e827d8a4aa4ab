// How each client speaks to this server, ready to paste.
import type { Task } from './models.svelte';

export interface Snippet {
  name: string;
  language: string;
  install: string;
  code: string;
}

// Where this page came from, without the last /.
export function baseUrl(): string {
  return new URL('.', location.href.replace(/[?#].*/, '')).href.replace(/\/$/, '');
}

// As a shell's word in single quotes, and as a literal that Python and JavaScript read alike.
const word = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
const literal = (text: string) => JSON.stringify(text);

function chat(base: string, model: string): Snippet[] {
  const m = literal(model);
  const message = `[{"role": "user", "content": "Hello!"}]`;
  return [
    { name: 'curl', language: 'bash', install: '', code: `curl ${word(`${base}/v1/chat/completions`)} \\\n  -H 'Content-Type: application/json' \\\n  -H "Authorization: Bearer $QUERN_API_KEY" \\\n  -d ${word(`{"model": ${m}, "messages": ${message}}`)}` },
    { name: 'OpenAI · Python', language: 'python', install: 'pip install openai', code: `from openai import OpenAI\n\nclient = OpenAI(base_url=${literal(`${base}/v1`)}, api_key="none")\nstream = client.chat.completions.create(\n    model=${m},\n    messages=${message},\n    stream=True,\n)\nfor chunk in stream:\n    print(chunk.choices[0].delta.content or "", end="", flush=True)` },
    { name: 'OpenAI · Node', language: 'javascript', install: 'npm install openai', code: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${literal(`${base}/v1`)}, apiKey: 'none' });\nconst answer = await client.chat.completions.create({\n  model: ${m},\n  messages: [{ role: 'user', content: 'Hello!' }],\n});\nconsole.log(answer.choices[0].message.content);` },
    { name: 'Anthropic', language: 'python', install: 'pip install anthropic', code: `from anthropic import Anthropic\n\nclient = Anthropic(base_url=${literal(base)}, api_key="none")\nmessage = client.messages.create(\n    model=${m},\n    max_tokens=256,\n    messages=${message},\n)\nprint(message.content[0].text)` },
    { name: 'Ollama', language: 'python', install: 'pip install ollama', code: `from ollama import Client\n\nclient = Client(host=${literal(base)})\nfor part in client.chat(model=${m}, messages=${message}, stream=True):\n    print(part["message"]["content"], end="", flush=True)` },
    { name: 'LangChain', language: 'python', install: 'pip install langchain-openai', code: `from langchain_openai import ChatOpenAI\n\nmodel = ChatOpenAI(base_url=${literal(`${base}/v1`)}, api_key="none", model=${m})\nprint(model.invoke("Hello!").content)` },
    { name: 'Xinference', language: 'python', install: 'pip install xinference-client', code: `from xinference_client import RESTfulClient as Client\n\nclient = Client(${literal(base)})\nmodel = client.get_model(${m})\nprint(model.chat(${message})["choices"][0]["message"]["content"])` },
  ];
}

function embed(base: string, model: string): Snippet[] {
  const m = literal(model);
  return [
    { name: 'curl', language: 'bash', install: '', code: `curl ${word(`${base}/v1/embeddings`)} \\\n  -H 'Content-Type: application/json' \\\n  -H "Authorization: Bearer $QUERN_API_KEY" \\\n  -d ${word(`{"model": ${m}, "input": ["A cat", "A kitten"]}`)}` },
    { name: 'OpenAI · Python', language: 'python', install: 'pip install openai', code: `from openai import OpenAI\n\nclient = OpenAI(base_url=${literal(`${base}/v1`)}, api_key="none")\nanswer = client.embeddings.create(model=${m}, input=["A cat", "A kitten"])\nprint(len(answer.data[0].embedding))` },
    { name: 'OpenAI · Node', language: 'javascript', install: 'npm install openai', code: `import OpenAI from 'openai';\n\nconst client = new OpenAI({ baseURL: ${literal(`${base}/v1`)}, apiKey: 'none' });\nconst answer = await client.embeddings.create({ model: ${m}, input: ['A cat', 'A kitten'] });\nconsole.log(answer.data[0].embedding.length);` },
    { name: 'Ollama', language: 'python', install: 'pip install ollama', code: `from ollama import Client\n\nclient = Client(host=${literal(base)})\nprint(len(client.embed(model=${m}, input=["A cat", "A kitten"])["embeddings"][0]))` },
    { name: 'LangChain', language: 'python', install: 'pip install langchain-openai', code: `from langchain_openai import OpenAIEmbeddings\n\nembeddings = OpenAIEmbeddings(\n    base_url=${literal(`${base}/v1`)}, api_key="none", model=${m}, check_embedding_ctx_length=False\n)\nprint(len(embeddings.embed_query("A cat")))` },
    { name: 'Xinference', language: 'python', install: 'pip install xinference-client', code: `from xinference_client import RESTfulClient as Client\n\nmodel = Client(${literal(base)}).get_model(${m})\nprint(len(model.create_embedding("A cat")["data"][0]["embedding"]))` },
  ];
}

function rerank(base: string, model: string): Snippet[] {
  const m = literal(model);
  return [
    { name: 'curl', language: 'bash', install: '', code: `curl ${word(`${base}/v1/rerank`)} \\\n  -H 'Content-Type: application/json' \\\n  -H "Authorization: Bearer $QUERN_API_KEY" \\\n  -d ${word(`{"model": ${m}, "query": "fresh bread", "documents": ["Bread keeps in a box.", "Stocks rose."]}`)}` },
    { name: 'Xinference', language: 'python', install: 'pip install xinference-client', code: `from xinference_client import RESTfulClient as Client\n\nmodel = Client(${literal(base)}).get_model(${m})\nprint(model.rerank(["Bread keeps in a box.", "Stocks rose."], "fresh bread")["results"])` },
  ];
}

export function snippetsFor(base: string, model: string, task: Task): Snippet[] {
  if (task === 'embed') return embed(base, model);
  if (task === 'rerank' || task === 'classify') return rerank(base, model);
  return chat(base, model);
}
