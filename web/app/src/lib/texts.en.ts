export const en = {
  actions: 'Actions', all: 'All', cancel: 'Cancel', close: 'Close', code: 'Code {language}', 'code.copy': 'Copy code', copied: 'Copied', copy: 'Copy',
  default: 'default', delete: 'Delete', deleted: 'Deleted', dimensions: 'Dimensions', forbidden: 'You may not see this.', language: 'Language', launch: 'Launch',
  loading: 'Loading …', menu: 'Menu', model: 'Model', models: 'Models', more: 'Show {count} more', nav: 'Main', no: 'no', off: 'off', on: 'on', perSecond: 'tokens/s', remove: 'Remove {name}',
  reset: 'Reset to defaults', retry: 'Try again', save: 'Save', saved: 'Saved', search: 'Search', send: 'Send', skip: 'Skip to content', stop: 'Stop', table: 'Table', theme: 'Theme',
  'theme.dark': 'Dark', 'theme.light': 'Light', 'theme.system': 'System', time: 'Time', tokens: 'tokens', unavailable: 'This server does not offer: {what}.',
  unreachable: 'The server cannot be reached.', yes: 'yes',

  'nav.chat': 'Chat', 'nav.try': 'Embed and rerank', 'nav.catalog': 'Catalogue', 'nav.launch': 'Launch a model', 'nav.models': 'Running models', 'nav.charts': 'Charts', 'nav.cluster': 'Machines',
  'nav.jobs': 'Jobs', 'nav.people': 'Keys and users', 'nav.connect': 'Connect a client', 'nav.login': 'Sign in', 'nav.setup': 'First admin',

  'chat.actions': 'Message actions', 'chat.answering': 'The model answers', 'chat.attach': 'Attach pictures or text files', 'chat.attachText': 'Attach text files', 'chat.attached': '{count} attached',
  'chat.blind': '{name}: this model sees no pictures.', 'chat.cached': '{count} from cache', 'chat.call': 'Calls {name}', 'chat.conversation': 'Conversation', 'chat.copyMessage': 'Copy message',
  'chat.cut': 'The answer reached its limit of tokens.', 'chat.edit': 'Edit message', 'chat.failed': 'The answer failed: {why}', 'chat.first': 'first after',
  'chat.full': 'This browser keeps no more: pictures and the oldest conversations are no longer stored.', 'chat.help': 'Enter sends, Shift and Enter begin a new line, Escape stops the answer.',
  'chat.history': 'Conversations', 'chat.message': 'Message', 'chat.new': 'New chat', 'chat.noModel': 'No chat model is running', 'chat.noModelHelp': 'Choose one from the catalogue and launch it.',
  'chat.noText': '{name}: is neither a picture nor a text file.', 'chat.none': 'No conversations.', 'chat.placeholder': 'Write a message', 'chat.regenerate': 'Regenerate', 'chat.removeAll': 'Delete all conversations',
  'chat.resend': 'Save and send', 'chat.result': 'Result of the tool', 'chat.sampling': 'Sampling', 'chat.sendResults': 'Send results', 'chat.settings': 'Chat settings', 'chat.stopped': 'Stopped', 'chat.system': 'System prompt',
  'chat.thinking': 'Thinking …', 'chat.thought': 'Thoughts', 'chat.tooLarge': '{name}: is larger than {limit}.', 'chat.tools': 'Tools (JSON)', 'chat.toolsExample': 'Insert an example',
  'chat.toolsHelp': 'A list as the API takes it. You answer the calls yourself.', 'chat.toolsList': 'must be a list', 'chat.untitled': 'Untitled', 'chat.welcome': 'What is on your mind?',
  'chat.welcomeHelp': 'Conversations stay in this browser.', 'chat.you': 'You',
  'sampler.frequency': 'Frequency penalty', 'sampler.maxTokens': 'Longest answer (tokens)', 'sampler.presence': 'Presence penalty', 'sampler.repetition': 'Repetition penalty', 'sampler.seed': 'Seed',
  'sampler.stop': 'Stop texts, one a line', 'sampler.temperature': 'Temperature', 'sampler.thinking': 'Thinking',

  'try.about': 'See what embedding and rerank models make of your texts.', 'try.compare': 'Compare', 'try.dimensions': '{dimensions} dimensions, {tokens} tokens', 'try.documents': 'Documents, one a line', 'try.embed': 'Embeddings',
  'try.firstOnly': 'The first {count} are compared.', 'try.matrix': 'Similarity of each text with each', 'try.noModel': 'No running model can do this.', 'try.query': 'Query', 'try.rank': 'Rank', 'try.ranked': '{count} documents ranked',
  'try.rerank': 'Rerank', 'try.text': 'Text', 'try.texts': 'Texts, one a line',

  'catalog.abilities': 'Abilities', 'catalog.ability': 'Ability', 'catalog.about': 'Models that have a name here, and whether they would run on this server now.', 'catalog.aliases': 'Also called', 'catalog.context': 'Context',
  'catalog.count': '{count} models', 'catalog.custom': 'custom', 'catalog.engines': 'Engines', 'catalog.family': 'Family', 'catalog.file': 'File', 'catalog.fits': 'fits here', 'catalog.fitsNot': 'does not run here', 'catalog.fitsOnly': 'Only what fits here',
  'catalog.format': 'Format', 'catalog.kind': 'Kind', 'catalog.languages': 'Languages', 'catalog.license': 'Licence', 'catalog.maxSize': 'Size', 'catalog.quantization': 'Quantisation', 'catalog.size': 'Size', 'catalog.sources': 'Sources',
  'catalog.stored': 'downloaded', 'catalog.storedOnly': 'Only downloaded', 'catalog.tokens': '{count} tokens', 'catalog.variant': 'Variant', 'catalog.variants': 'Variants',
  'kind.chat': 'Chat', 'kind.code': 'Code', 'kind.completion': 'Completion', 'kind.vision': 'Vision', 'kind.embedding': 'Embedding', 'kind.rerank': 'Rerank', 'kind.transcription': 'Speech to text', 'kind.speech': 'Text to speech', 'kind.image': 'Image', 'kind.voice-activity': 'Voice activity',
  'ability.chat': 'chat', 'ability.completion': 'completion', 'ability.tools': 'tools', 'ability.reasoning': 'reasoning', 'ability.hybrid': 'optional reasoning', 'ability.vision': 'vision',

  'launch.about': 'Each copy is a process of its own; it comes back after a crash or a restart.', 'launch.activations': 'Activations', 'launch.auto': 'automatic', 'launch.cache': 'KV cache', 'launch.cannot': 'Cannot run it here:', 'launch.chooseFirst': 'Choose a model first.',
  'launch.context': 'Context (tokens)', 'launch.device': 'Device', 'launch.engine': 'Engine', 'launch.feature': 'launching models', 'launch.free': 'Free now', 'launch.fromCatalog': 'From the numbers of the catalogue.', 'launch.fromFiles': 'From the files on this machine.',
  'launch.keepAlive': 'Unload when idle for', 'launch.keepAliveHelp': 'Seconds, or 10m, 1h. Empty: it stays loaded.', 'launch.kv': 'KV cache type', 'launch.memory': 'Memory', 'launch.name': 'Model name', 'launch.nameHelp': 'A name of the catalogue, or hf:org/repo.', 'launch.overhead': 'Overhead',
  'launch.perReplica': 'One replica', 'launch.pinned': 'Never unload for another model', 'launch.priority': 'Priority', 'launch.replicas': 'Replicas', 'launch.sending': 'Launching …', 'launch.sequences': 'Requests at once', 'launch.stays': 'stays', 'launch.total': 'Needed of what is free',
  'launch.uid': 'Name for clients', 'launch.unquantized': 'none', 'launch.weights': 'Weights',

  'models.about': 'Details', 'models.idle': 'unloaded; the next request loads it', 'models.unload': 'Unload', 'models.unloaded': 'The model is unloaded', 'models.adapterOf': 'adapter of {model}', 'models.addReplica': 'Add a replica', 'models.added': 'A replica was added', 'models.address': 'Address', 'models.cancelled': 'Cancelled', 'models.emptyLog': 'The log is empty.', 'models.event': 'Event', 'models.events': 'Events',
  'models.feature': 'changing running models', 'models.inFlight': 'Requests', 'models.inProcess': 'It runs inside the server, without replicas.', 'models.loadTime': 'Loaded in', 'models.loading': 'Loading', 'models.log': 'Log', 'models.memory': 'Memory', 'models.message': 'Message', 'models.noEvents': 'Nothing has happened yet.',
  'models.node': 'Machine', 'models.noReplicas': 'No replica runs now; the next request starts one.', 'models.none': 'Nothing is running.', 'models.replica': 'Replica', 'models.restarts': 'Restarts', 'models.since': 'Since', 'models.state': 'State', 'models.stopReplica': 'Stop', 'models.stopped': 'The replica stops', 'models.terminate': 'Stop the model',
  'models.terminateSure': 'Stop {model}?', 'models.terminated': 'The model stops', 'models.use': 'Try',
  'task.generate': 'LLM', 'task.embed': 'Embedding', 'task.rerank': 'Rerank', 'task.classify': 'Classification', 'task.other': 'Other',
  'state.ready': 'ready', 'state.ok': 'ok', 'state.loading': 'loading', 'state.creating': 'creating', 'state.pulling': 'downloading', 'state.waiting': 'waiting', 'state.draining': 'draining', 'state.backoff': 'waits to restart', 'state.stopped': 'stopped', 'state.error': 'error', 'state.terminating': 'stopping',
  'state.terminated': 'stopped', 'state.completed': 'done', 'state.failed': 'failed', 'state.in_progress': 'running', 'state.validating': 'checking', 'state.finalizing': 'finishing', 'state.cancelled': 'cancelled', 'state.cancelling': 'cancelling', 'state.expired': 'expired', 'state.unhealthy': 'unhealthy',
  'state.no_tool': 'no tool', 'state.no_driver': 'no driver',
  'state.queued': 'queued', 'state.waiting_window': 'waits for its window', 'state.running': 'running', 'state.paused': 'paused', 'state.lost': 'lost',

  'charts.about': 'The last minutes, from /metrics. Nothing is kept when you leave.', 'charts.between': 'Time between tokens', 'charts.cache': 'KV cache in use', 'charts.first': 'Time to first token', 'charts.generated': 'generated', 'charts.hitRate': 'hit rate', 'charts.hits': 'Prefix cache hits',
  'charts.memory': 'Memory of the server', 'charts.perSecond': '/s', 'charts.prompt': 'prompt', 'charts.requests': 'Requests', 'charts.running': 'running', 'charts.server': 'resident', 'charts.tokens': 'Tokens', 'charts.used': 'used', 'charts.waiting': 'waiting',

  'cluster.about': 'What computes here.', 'cluster.devices': 'Devices', 'cluster.driver': 'Driver', 'cluster.load': 'Load', 'cluster.machines': 'Machines', 'cluster.memory': 'Memory in use', 'cluster.vendor': 'Vendor',
  'cluster.ago': '{time} ago', 'cluster.drain': 'Drain', 'cluster.drainHelp': 'No new replicas; those there move elsewhere.', 'cluster.join': 'Join a machine', 'cluster.joinHelp': 'Run this on the other machine, which must reach this server at that address. TOKEN is what the server was given as --worker-token, or an API key with the scope nodes:join.', 'cluster.joined': 'joining machines', 'cluster.lastSeen': 'Last seen', 'cluster.local': 'this machine', 'cluster.remove': 'Remove', 'cluster.removeSure': 'Remove the machine {name}? Its replicas start elsewhere.', 'cluster.resume': 'Resume', 'cluster.version': 'Version',
  'cluster.probes': 'Who was asked', 'fact.architecture': 'Architecture', 'fact.cores': 'Cores', 'fact.usable_threads': 'Usable threads', 'fact.instruction_sets': 'Instruction sets', 'fact.numa': 'NUMA nodes', 'fact.pci': 'PCI address', 'fact.uuid': 'UUID', 'fact.numa_node': 'NUMA node', 'fact.source': 'Told by', 'fact.index': 'Index', 'fact.shares_system_memory': 'Shares system memory',

  'jobs.about': 'Files of requests that run when nobody else waits. A file has one JSON request a line, as in the Batch API of OpenAI.', 'jobs.endpoint': 'Endpoint', 'jobs.errors': 'Errors', 'jobs.failed': '{count} failed', 'jobs.file': 'File (.jsonl)', 'jobs.job': 'Job', 'jobs.none': 'No jobs yet.', 'jobs.progress': 'Progress',
  'jobs.results': 'Results', 'jobs.start': 'Start', 'jobs.started': 'The job was started',
  'jobs.always': 'always', 'jobs.batchesOnly': 'This server does not offer jobs with priority, window and pause; it runs batches.', 'jobs.created': 'Created', 'jobs.ended': 'Ended', 'jobs.modelOfLines': 'as its lines say', 'jobs.name': 'Name', 'jobs.noSuch': 'There is no such job.', 'jobs.pause': 'Pause', 'jobs.priority': 'Priority', 'jobs.priorityHelp': 'The higher goes first.', 'jobs.resume': 'Resume', 'jobs.sending': 'Sending …', 'jobs.window': 'Window', 'jobs.windowHelp': "When it may run, in the server's time: mon-fri 22:00-06:00, sat+sun 00:00-24:00. Empty: always.",

  'connect.about': 'Point any of these clients at this server.', 'connect.api': 'All routes', 'connect.install': 'Install', 'connect.key': 'Where the server asks for a key, put it in place of "none" or into QUERN_API_KEY.',

  'login.about': 'With a password, or with an API key.', 'login.done': 'You are signed in', 'login.keep': 'Stay signed in on this browser', 'login.key': 'API key', 'login.leave': 'Sign out', 'login.left': 'You are signed out', 'login.name': 'User name', 'login.needsSetup': 'There is no admin yet. The log of the server shows a link that makes one.',
  'login.notNeeded': 'This server asks nobody to sign in.', 'login.oidc': 'Single sign-on', 'login.password': 'Password', 'login.useKey': 'Use the key', 'login.wanted': 'This server wants you to sign in.', 'login.withKey': 'API key', 'login.withPassword': 'User', 'login.wrong': 'That was not right.',
  'setup.about': 'Makes the first admin of this server.', 'setup.again': 'Password again', 'setup.create': 'Create the admin', 'setup.differ': 'The two passwords differ.', 'setup.password': 'Password', 'setup.token': 'One-time token', 'setup.tokenHelp': 'The server printed it at its first start.',

  'people.about': 'Who may use this server, and what they did.', 'people.account': 'My account', 'people.action': 'Action', 'people.active': 'active', 'people.addKey': 'New key', 'people.addUser': 'New user', 'people.address': 'Address', 'people.audit': 'Audit', 'people.ban': 'Ban', 'people.banned': 'banned', 'people.copyKey': 'Copy key',
  'people.create': 'Create', 'people.days': 'Expires', 'people.disable': 'Disable', 'people.disabled': 'disabled', 'people.enable': 'Enable', 'people.expires': 'Expires', 'people.firstPassword': 'First password', 'people.inDays': 'in {days} days', 'people.keyMade': 'Copy the key now: it is not shown again.', 'people.keyModels': 'Models it may use (empty: all)',
  'people.keyName': 'Name', 'people.keys': 'API keys', 'people.lastLogin': 'Last sign-in', 'people.lastUsed': 'Last used', 'people.lines': '{count} lines', 'people.mustChange': 'Change your password first.', 'people.never': 'never', 'people.newPassword': 'New password', 'people.newest': 'Newest', 'people.noKeys': 'No keys yet.',
  'people.off': 'This server knows no users: it asks nobody to sign in.', 'people.oldPassword': 'Old password', 'people.older': 'Older', 'people.outcome': 'Outcome', 'people.owner': 'Owner', 'people.password': 'Password', 'people.passwordChanged': 'The password was changed', 'people.perDay': 'Tokens a day', 'people.perMinute': 'Requests a minute',
  'people.removeSure': 'Delete {name}?', 'people.resetHelp': 'The user must change it at the next sign-in.', 'people.role': 'Role', 'people.scopes': 'Scopes', 'people.target': 'Target', 'people.today': 'Tokens today', 'people.unban': 'Lift ban', 'people.users': 'Users', 'people.who': 'Who',
  'role.admin': 'admin', 'role.user': 'user', 'role.viewer': 'viewer',
};

export type Key = keyof typeof en;
