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

// A client that asks for fields in a form of its own.
function form(name: string, where: string, fields: [string, string][]): Snippet {
  const width = Math.max(...fields.map(([field]) => field.length));
  return { name, language: '', install: '', code: `${where}\n\n${fields.map(([field, value]) => `${field.padEnd(width)}  ${value}`).join('\n')}` };
}

// What Dify, RAGFlow and n8n call the three kinds of models.
function forms(base: string, model: string, kinds: { dify: string; ragflow: string; n8n: string }): Snippet[] {
  const dify = form('Dify', 'Settings → Model Provider → OpenAI-API-compatible → Add Model', [['Model Type', kinds.dify], ['Model Name', model], ['API Key', 'none'], ['API endpoint URL', `${base}/v1`]]);
  const ragflow = form('RAGFlow', 'Model providers → OpenAI-API-Compatible → Add the model', [['Model type', kinds.ragflow], ['Model name', model], ['Base url', `${base}/v1`], ['API-Key', 'none']]);
  const n8n = form('n8n', 'Credentials → Create → OpenAI', [['API Key', 'none'], ['Base URL', `${base}/v1`], [kinds.n8n, `Model → By ID → ${model}`]]);
  return kinds.n8n ? [dify, ragflow, n8n] : [dify, ragflow];
}

function continueYaml(base: string, model: string, roles: string): Snippet {
  return { name: 'Continue', language: 'yaml', install: '', code: `# ~/.continue/config.yaml\nmodels:\n  - name: Quern\n    provider: openai\n    model: ${literal(model)}\n    apiBase: ${literal(`${base}/v1`)}\n    apiKey: none\n    roles: [${roles}]` };
}

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
    { name: 'LlamaIndex', language: 'python', install: 'pip install llama-index-llms-openai-like', code: `from llama_index.llms.openai_like import OpenAILike\n\nllm = OpenAILike(api_base=${literal(`${base}/v1`)}, api_key="none", model=${m}, is_chat_model=True)\nprint(llm.complete("Hello!"))` },
    { name: 'Xinference', language: 'python', install: 'pip install xinference-client', code: `from xinference_client import RESTfulClient as Client\n\nclient = Client(${literal(base)})\nmodel = client.get_model(${m})\nprint(model.chat(${message})["choices"][0]["message"]["content"])` },
    { name: 'Open WebUI', language: 'bash', install: '', code: `docker run -d -p 3000:8080 -v open-webui:/app/backend/data \\\n  -e OPENAI_API_BASE_URL=${word(`${base}/v1`)} -e OPENAI_API_KEY=none -e ENABLE_OLLAMA_API=false \\\n  ghcr.io/open-webui/open-webui:main` },
    continueYaml(base, model, 'chat, edit, apply'),
    ...forms(base, model, { dify: 'LLM', ragflow: 'chat', n8n: 'OpenAI Chat Model' }),
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
    { name: 'LlamaIndex', language: 'python', install: 'pip install llama-index-embeddings-openai-like', code: `from llama_index.embeddings.openai_like import OpenAILikeEmbedding\n\nmodel = OpenAILikeEmbedding(api_base=${literal(`${base}/v1`)}, api_key="none", model_name=${m})\nprint(len(model.get_text_embedding("A cat")))` },
    { name: 'Xinference', language: 'python', install: 'pip install xinference-client', code: `from xinference_client import RESTfulClient as Client\n\nmodel = Client(${literal(base)}).get_model(${m})\nprint(len(model.create_embedding("A cat")["data"][0]["embedding"]))` },
    continueYaml(base, model, 'embed'),
    ...forms(base, model, { dify: 'Text Embedding', ragflow: 'embedding', n8n: 'Embeddings OpenAI' }),
  ];
}

function rerank(base: string, model: string): Snippet[] {
  const m = literal(model);
  return [
    { name: 'curl', language: 'bash', install: '', code: `curl ${word(`${base}/v1/rerank`)} \\\n  -H 'Content-Type: application/json' \\\n  -H "Authorization: Bearer $QUERN_API_KEY" \\\n  -d ${word(`{"model": ${m}, "query": "fresh bread", "documents": ["Bread keeps in a box.", "Stocks rose."]}`)}` },
    { name: 'Xinference', language: 'python', install: 'pip install xinference-client', code: `from xinference_client import RESTfulClient as Client\n\nmodel = Client(${literal(base)}).get_model(${m})\nprint(model.rerank(["Bread keeps in a box.", "Stocks rose."], "fresh bread")["results"])` },
    ...forms(base, model, { dify: 'Rerank', ragflow: 'rerank', n8n: '' }),
  ];
}

export function snippetsFor(base: string, model: string, task: Task): Snippet[] {
  if (task === 'embed') return embed(base, model);
  if (task === 'rerank' || task === 'classify') return rerank(base, model);
  return chat(base, model);
}
