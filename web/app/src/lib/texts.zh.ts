import type { Key } from './texts.en';

export const zh: Record<Key, string> = {
  actions: '操作', all: '全部', cancel: '取消', close: '关闭', code: '代码 {language}', 'code.copy': '复制代码', copied: '已复制', copy: '复制',
  default: '默认', delete: '删除', deleted: '已删除', dimensions: '维度', forbidden: '您无权查看。', language: '语言', launch: '启动',
  loading: '加载中……', menu: '菜单', model: '模型', models: '模型', more: '再显示 {count} 个', nav: '主导航', no: '否', off: '关', on: '开', perSecond: 'token/秒', remove: '移除 {name}',
  reset: '恢复默认值', retry: '重试', save: '保存', saved: '已保存', search: '搜索', send: '发送', skip: '跳到内容', stop: '停止', table: '表格', theme: '主题',
  'theme.dark': '深色', 'theme.light': '浅色', 'theme.system': '系统', time: '时间', tokens: '个 token', unavailable: '此服务器不提供：{what}。',
  unreachable: '无法连接服务器。', yes: '是',

  'nav.chat': '对话', 'nav.try': '嵌入与重排', 'nav.catalog': '模型目录', 'nav.launch': '启动模型', 'nav.models': '运行中的模型', 'nav.charts': '图表', 'nav.cluster': '机器',
  'nav.jobs': '任务', 'nav.people': '密钥与用户', 'nav.connect': '接入客户端', 'nav.login': '登录', 'nav.setup': '首个管理员',

  'chat.actions': '消息操作', 'chat.answering': '模型正在回答', 'chat.attach': '添加图片或文本文件', 'chat.attachText': '添加文本文件', 'chat.attached': '已添加 {count} 个',
  'chat.blind': '{name}：该模型不能识别图片。', 'chat.cached': '{count} 来自缓存', 'chat.call': '调用 {name}', 'chat.conversation': '对话内容', 'chat.copyMessage': '复制消息',
  'chat.cut': '回答已达到 token 上限。', 'chat.edit': '编辑消息', 'chat.failed': '回答失败：{why}', 'chat.first': '首个耗时',
  'chat.full': '浏览器存储已满：图片和最早的对话不再保存。', 'chat.help': '回车发送，Shift+回车换行，Esc 停止回答。',
  'chat.history': '对话记录', 'chat.message': '消息', 'chat.new': '新对话', 'chat.noModel': '没有正在运行的对话模型', 'chat.noModelHelp': '请从目录中选择一个并启动。',
  'chat.noText': '{name}：既不是图片也不是文本文件。', 'chat.none': '没有对话。', 'chat.placeholder': '输入消息', 'chat.regenerate': '重新生成', 'chat.removeAll': '删除所有对话',
  'chat.resend': '保存并发送', 'chat.result': '工具的结果', 'chat.sampling': '采样', 'chat.sendResults': '发送结果', 'chat.settings': '对话设置', 'chat.stopped': '已停止', 'chat.system': '系统提示词',
  'chat.thinking': '思考中……', 'chat.thought': '思考过程', 'chat.tooLarge': '{name}：大于 {limit}。', 'chat.tools': '工具（JSON）', 'chat.toolsExample': '插入示例',
  'chat.toolsHelp': '与 API 格式相同的列表；调用结果由您填写。', 'chat.toolsList': '必须是列表', 'chat.untitled': '未命名', 'chat.welcome': '想聊点什么？',
  'chat.welcomeHelp': '对话只保存在此浏览器中。', 'chat.you': '您',
  'sampler.frequency': '频率惩罚', 'sampler.maxTokens': '最长回答（token）', 'sampler.presence': '存在惩罚', 'sampler.repetition': '重复惩罚', 'sampler.seed': '随机种子',
  'sampler.stop': '停止文本，每行一个', 'sampler.temperature': '温度', 'sampler.thinking': '思考',

  'try.about': '看看嵌入和重排模型如何处理您的文本。', 'try.compare': '比较', 'try.dimensions': '{dimensions} 维，{tokens} 个 token', 'try.documents': '文档，每行一个', 'try.embed': '嵌入',
  'try.firstOnly': '只比较前 {count} 条。', 'try.matrix': '各文本两两之间的相似度', 'try.noModel': '没有可用的运行中模型。', 'try.query': '查询', 'try.rank': '排序', 'try.ranked': '已排序 {count} 个文档',
  'try.rerank': '重排', 'try.text': '文本', 'try.texts': '文本，每行一条',

  'catalog.abilities': '能力', 'catalog.ability': '能力', 'catalog.about': '这里有名字的模型，以及它们现在能否在此服务器上运行。', 'catalog.aliases': '别名', 'catalog.context': '上下文',
  'catalog.count': '{count} 个模型', 'catalog.custom': '自定义', 'catalog.engines': '引擎', 'catalog.family': '架构', 'catalog.file': '文件', 'catalog.fits': '可在此运行', 'catalog.fitsNot': '无法在此运行', 'catalog.fitsOnly': '只看可运行的',
  'catalog.format': '格式', 'catalog.kind': '类型', 'catalog.languages': '语言', 'catalog.license': '许可证', 'catalog.maxSize': '大小', 'catalog.quantization': '量化', 'catalog.size': '大小', 'catalog.sources': '来源',
  'catalog.stored': '已下载', 'catalog.storedOnly': '只看已下载的', 'catalog.tokens': '{count} 个 token', 'catalog.variant': '版本', 'catalog.variants': '版本',
  'kind.chat': '对话', 'kind.code': '代码', 'kind.completion': '补全', 'kind.vision': '视觉', 'kind.embedding': '嵌入', 'kind.rerank': '重排', 'kind.transcription': '语音转文字', 'kind.speech': '文字转语音', 'kind.image': '图像', 'kind.voice-activity': '语音检测',
  'ability.chat': '对话', 'ability.completion': '补全', 'ability.tools': '工具', 'ability.reasoning': '推理', 'ability.hybrid': '可选推理', 'ability.vision': '视觉',

  'launch.about': '每个副本是独立进程；崩溃或重启后会自动恢复。', 'launch.activations': '激活', 'launch.auto': '自动', 'launch.cache': 'KV 缓存', 'launch.cannot': '无法在此运行：', 'launch.chooseFirst': '请先选择模型。',
  'launch.context': '上下文（token）', 'launch.device': '设备', 'launch.engine': '引擎', 'launch.feature': '启动模型', 'launch.free': '当前可用', 'launch.fromCatalog': '根据目录中的数据估算。', 'launch.fromFiles': '根据本机文件估算。',
  'launch.keepAlive': '空闲多久后卸载', 'launch.keepAliveHelp': '秒数，或 10m、1h。留空：常驻内存。', 'launch.kv': 'KV 缓存类型', 'launch.memory': '内存', 'launch.name': '模型名称', 'launch.nameHelp': '目录中的名称，或 hf:org/repo。', 'launch.overhead': '额外开销',
  'launch.perReplica': '单个副本', 'launch.pinned': '不为其他模型让出内存', 'launch.priority': '优先级', 'launch.replicas': '副本', 'launch.sending': '启动中……', 'launch.sequences': '并发请求', 'launch.stays': '常驻', 'launch.total': '所需 / 可用',
  'launch.uid': '客户端使用的名称', 'launch.unquantized': '无', 'launch.weights': '权重',

  'models.about': '详情', 'models.idle': '已卸载；下次请求时加载', 'models.unload': '卸载', 'models.unloaded': '模型已卸载', 'models.adapterOf': '{model} 的适配器', 'models.addReplica': '增加副本', 'models.added': '已增加副本', 'models.address': '地址', 'models.cancelled': '已取消', 'models.emptyLog': '日志为空。', 'models.event': '事件', 'models.events': '事件',
  'models.feature': '更改运行中的模型', 'models.inFlight': '请求数', 'models.inProcess': '在服务器进程内运行，没有副本。', 'models.loadTime': '加载用时', 'models.loading': '加载中', 'models.log': '日志', 'models.memory': '内存', 'models.message': '信息', 'models.noEvents': '还没有事件。',
  'models.node': '机器', 'models.noReplicas': '当前没有运行中的副本；下次请求时启动。', 'models.none': '没有运行中的模型。', 'models.replica': '副本', 'models.restarts': '重启次数', 'models.since': '开始时间', 'models.state': '状态', 'models.stopReplica': '停止', 'models.stopped': '副本正在停止', 'models.terminate': '停止模型',
  'models.terminateSure': '停止 {model}？', 'models.terminated': '模型正在停止', 'models.use': '试用',
  'task.generate': '语言模型', 'task.embed': '嵌入', 'task.rerank': '重排', 'task.classify': '分类', 'task.other': '其他',
  'state.ready': '就绪', 'state.ok': '正常', 'state.loading': '加载中', 'state.creating': '创建中', 'state.pulling': '下载中', 'state.waiting': '等待中', 'state.draining': '排空中', 'state.backoff': '等待重启', 'state.stopped': '已停止', 'state.error': '错误', 'state.terminating': '停止中',
  'state.terminated': '已停止', 'state.completed': '完成', 'state.failed': '失败', 'state.in_progress': '运行中', 'state.validating': '检查中', 'state.finalizing': '收尾中', 'state.cancelled': '已取消', 'state.cancelling': '取消中', 'state.expired': '已过期', 'state.unhealthy': '异常',
  'state.no_tool': '缺少工具', 'state.no_driver': '缺少驱动',
  'state.queued': '排队中', 'state.waiting_window': '等待时间窗口', 'state.running': '运行中', 'state.paused': '已暂停', 'state.lost': '失联',

  'charts.about': '最近几分钟，数据来自 /metrics；离开页面后不保留。', 'charts.between': 'token 间隔', 'charts.cache': 'KV 缓存占用', 'charts.first': '首个 token 时间', 'charts.generated': '生成', 'charts.hitRate': '命中率', 'charts.hits': '前缀缓存命中',
  'charts.memory': '服务器内存', 'charts.perSecond': '/秒', 'charts.prompt': '提示', 'charts.requests': '请求', 'charts.running': '运行中', 'charts.server': '常驻', 'charts.tokens': 'token', 'charts.used': '已用', 'charts.waiting': '等待中',

  'cluster.about': '这里的计算资源。', 'cluster.devices': '设备', 'cluster.driver': '驱动', 'cluster.load': '负载', 'cluster.machines': '机器', 'cluster.memory': '已用内存', 'cluster.vendor': '厂商',
  'cluster.ago': '{time}前', 'cluster.drain': '排空', 'cluster.drainHelp': '不再分配新副本；已有副本迁往其他机器。', 'cluster.join': '加入一台机器', 'cluster.joinHelp': '在另一台机器上运行，它须能访问该地址。TOKEN 是此服务器的 --worker-token，或权限含 nodes:join 的 API 密钥。', 'cluster.joined': '机器加入', 'cluster.lastSeen': '上次心跳', 'cluster.local': '本机', 'cluster.remove': '移除', 'cluster.removeSure': '移除机器 {name}？其副本将在别处启动。', 'cluster.resume': '恢复', 'cluster.version': '版本',
  'cluster.probes': '探测来源', 'fact.architecture': '架构', 'fact.cores': '核心数', 'fact.usable_threads': '可用线程', 'fact.instruction_sets': '指令集', 'fact.numa': 'NUMA 节点数', 'fact.pci': 'PCI 地址', 'fact.uuid': 'UUID', 'fact.numa_node': 'NUMA 节点', 'fact.source': '数据来源', 'fact.index': '序号', 'fact.shares_system_memory': '共享系统内存',

  'jobs.about': '在空闲时运行的批量请求文件。每行一个 JSON 请求，与 OpenAI Batch API 相同。', 'jobs.endpoint': '接口', 'jobs.errors': '错误', 'jobs.failed': '{count} 个失败', 'jobs.file': '文件（.jsonl）', 'jobs.job': '任务', 'jobs.none': '还没有任务。', 'jobs.progress': '进度',
  'jobs.results': '结果', 'jobs.start': '开始', 'jobs.started': '任务已开始',
  'jobs.always': '始终', 'jobs.batchesOnly': '此服务器不提供优先级、时间窗口和暂停；只能运行批处理。', 'jobs.created': '创建时间', 'jobs.ended': '结束时间', 'jobs.modelOfLines': '按各行所写', 'jobs.name': '名称', 'jobs.noSuch': '没有这个任务。', 'jobs.pause': '暂停', 'jobs.priority': '优先级', 'jobs.priorityHelp': '数值高者优先。', 'jobs.resume': '继续', 'jobs.sending': '发送中……', 'jobs.window': '时间窗口', 'jobs.windowHelp': '可运行的时段，按服务器时间：mon-fri 22:00-06:00, sat+sun 00:00-24:00。留空：始终。',

  'connect.about': '让下列任一客户端连接此服务器。', 'connect.api': '全部接口', 'connect.install': '安装', 'connect.key': '如果服务器需要密钥，请用它替换 "none"，或放入 QUERN_API_KEY。',

  'login.about': '使用密码或 API 密钥。', 'login.done': '已登录', 'login.keep': '在此浏览器保持登录', 'login.key': 'API 密钥', 'login.leave': '退出登录', 'login.left': '已退出登录', 'login.name': '用户名', 'login.needsSetup': '还没有管理员。服务器日志中有创建管理员的链接。',
  'login.notNeeded': '此服务器无需登录。', 'login.oidc': '单点登录', 'login.password': '密码', 'login.useKey': '使用密钥', 'login.wanted': '此服务器需要登录。', 'login.withKey': 'API 密钥', 'login.withPassword': '用户', 'login.wrong': '用户名、密码或密钥不正确。',
  'setup.about': '创建此服务器的首个管理员。', 'setup.again': '再次输入密码', 'setup.create': '创建管理员', 'setup.differ': '两次输入的密码不同。', 'setup.password': '密码', 'setup.token': '一次性令牌', 'setup.tokenHelp': '服务器首次启动时会打印。',

  'people.about': '谁可以使用此服务器，以及做过什么。', 'people.account': '我的账户', 'people.action': '操作', 'people.active': '启用', 'people.addKey': '新建密钥', 'people.addUser': '新建用户', 'people.address': '地址', 'people.audit': '审计', 'people.ban': '封禁', 'people.banned': '已封禁', 'people.copyKey': '复制密钥',
  'people.create': '创建', 'people.days': '有效期', 'people.disable': '停用', 'people.disabled': '已停用', 'people.enable': '启用', 'people.expires': '到期', 'people.firstPassword': '初始密码', 'people.inDays': '{days} 天后', 'people.keyMade': '请立即复制密钥：不会再次显示。', 'people.keyModels': '可用模型（留空：全部）',
  'people.keyName': '名称', 'people.keys': 'API 密钥', 'people.lastLogin': '上次登录', 'people.lastUsed': '上次使用', 'people.lines': '{count} 条', 'people.mustChange': '请先修改密码。', 'people.never': '永不', 'people.newPassword': '新密码', 'people.newest': '最新', 'people.noKeys': '还没有密钥。',
  'people.off': '此服务器没有用户：无需登录。', 'people.oldPassword': '旧密码', 'people.older': '更早', 'people.outcome': '结果', 'people.owner': '所有者', 'people.password': '密码', 'people.passwordChanged': '密码已修改', 'people.perDay': '每日 token', 'people.perMinute': '每分钟请求',
  'people.removeSure': '删除 {name}？', 'people.resetHelp': '用户下次登录时必须修改。', 'people.role': '角色', 'people.scopes': '权限', 'people.target': '对象', 'people.today': '今日 token', 'people.unban': '解封', 'people.users': '用户', 'people.who': '用户',
  'role.admin': '管理员', 'role.user': '用户', 'role.viewer': '只读',
};
