// Workers: started, adopted, asked whether they are well, and what follows when they end.
#include <arpa/inet.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "base/status.h"
#include "engine/kv_sizing.h"
#include "platform/catalog/engines.h"
#include "platform/fleet/fleet_owner.h"
#include "platform/home.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSocketPathMax = 100;  // of `quern serve --uds`; sun_path of sockaddr_un has 108 bytes
constexpr int64_t kLoadingAskMs = 20;   // between questions to one that loads, at first
constexpr int32_t kFailuresTold = 3;    // in a row, after which nobody is told to wait

std::string random_hex(size_t bytes) {
  std::string text;
  std::vector<unsigned char> noise(bytes);
  if (::getrandom(noise.data(), noise.size(), 0) != static_cast<ssize_t>(bytes)) std::abort();  // since Linux 3.17
  for (const unsigned char byte : noise) text += fmt::format("{:02x}", byte);
  return text;
}

// Of 127.0.0.1; another may take it before the worker does, then the worker ends and gets another.
Result<uint16_t> free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = fd >= 0 && ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!bound) return io_error("no free port of 127.0.0.1");
  return ntohs(address.sin_port);
}

// The machine's, or what a cgroup leaves of it.
int64_t total_memory_bytes() {
  const int64_t total = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  return file >> limit && limit > 0 ? std::min(total, limit) : total;  // "max": no limit
}

bool is_private_folder(const fs::path& folder) {
  struct stat info{};
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 0777) == 0700;
}

}  // namespace

Result<fs::path> make_socket_folder(const fs::path& folder) {
  std::error_code error;
  fs::path chosen = fs::absolute(folder, error) / "run";
  if (chosen.string().size() + std::string_view("/0123456789abcdef.sock").size() > kSocketPathMax) {
    const fs::path base = environment("XDG_RUNTIME_DIR").value_or(fs::temp_directory_path(error).string());
    const size_t hash = std::hash<std::string>{}(chosen.string());
    chosen = base / fmt::format("quern-{}-{:016x}", ::geteuid(), hash);
  }
  if (::mkdir(chosen.c_str(), 0700) != 0 && errno != EEXIST) {
    return io_error(fmt::format("{}: {}", chosen.string(), std::strerror(errno)));
  }
  if (!is_private_folder(chosen)) {
    return make_error(ErrorCode::kPermissionDenied,
                      fmt::format("{}: is not a folder of this user alone (mode 0700)", chosen.string()));
  }
  return chosen;
}

std::string log_file_name(const std::string& replica) {
  std::string name;
  for (const char c : replica) name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ? c : '_';
  // Two ids may look alike once their other characters are gone.
  return fmt::format("{}-{:08x}.log", name.substr(0, 100), static_cast<uint32_t>(std::hash<std::string>{}(replica)));
}

std::string last_log_line(const fs::path& file) {
  std::ifstream log(file, std::ios::binary);
  log.seekg(0, std::ios::end);
  const auto size = static_cast<int64_t>(log.tellg());
  log.seekg(std::max<int64_t>(0, size - 4096));
  std::string last;
  for (std::string line; std::getline(log, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line.substr(0, 500);
  }
  return last;
}

std::string FleetOwner::mark(const std::string& name) const {
  return options_.folder.string() + "|" + name;
}

StoredWorkerRow FleetOwner::stored_row(const FleetModel& model, const FleetReplica& replica) const {
  return {.replica = replica.id,
          .uid = model.spec.uid,
          .node = replica.node,
          .process = replica.process ? replica.process->id() : ProcessId{},
          .address = replica.address,
          .base_path = replica.base_path,
          .api_key = replica.api_key,
          .model = replica.model,
          .digest = replica.digest,
          .started_ms = replica.started_ms,
          .dismissed = replica.plan.dismissed,
          .devices = device_text(replica.devices)};
}

std::string FleetOwner::served_name(const FleetModel& model) const {
  return options_.served_name ? options_.served_name(model.spec.uid) : model.spec.uid;
}

Result<WorkerPlace> FleetOwner::make_place(const FleetModel& model, const FleetReplica& replica) const {
  WorkerPlace place{.program = options_.program.string(),
                    .model = model.facts.path,
                    .served_name = options_.served_name ? options_.served_name(model.spec.uid) : "",
                    .task = model.facts.task,
                    .device = device_of(model, replica),
                    .mark = mark(replica.id)};
  switch (find_worker_kind(model.spec.engine)->address) {
    case WorkerAddress::kUrl: break;
    case WorkerAddress::kUnixSocket: place.socket = socket_folder_ / (random_hex(8) + ".sock"); break;
    case WorkerAddress::kLoopback: {
      QUERN_ASSIGN(place.program, find_engine_program(model.spec.engine));
      QUERN_ASSIGN(place.port, free_port());
      place.api_key = random_hex(16);
      break;
    }
  }
  return place;
}

// What a start is, wherever the process will be: a new life of the replica, which loads from now on.
void FleetOwner::begin_load(const FleetModel& model, FleetReplica& replica) {
  replica.digest = model.digest;
  replica.engine = model.spec.engine;
  replica.adapters = model.spec.adapters;
  replica.started_ms = unix_ms();
  replica.adopted = false;
  replica.message.clear();
  PlanReplica& plan = replica.plan;
  plan.state = ReplicaState::kLoading;
  plan.since_ms = steady_ms();
  plan.terminated_ms = 0;
  plan.killed = false;
  plan.current = true;
  {
    const std::lock_guard lock(shared_->router_mutex);
    replica.life = ++shared_->life;
  }
}

void FleetOwner::start_worker(FleetModel& model, FleetReplica& replica, std::vector<std::string> devices) {
  replica.devices = std::move(devices);
  auto place = make_place(model, replica);
  if (!place) return worker_failed(model, replica, place.error().message, false);
  const WorkerCommand command = worker_command(model.spec, *place);
  replica.address = command.address;
  replica.base_path = command.base_path;
  replica.api_key = command.api_key;
  replica.model = command.model;
  replica.health_path = command.health_path;
  replica.asked_ms = 0;
  replica.node.clear();
  begin_load(model, replica);
  if (!command.argv.empty()) {
    bound_log(replica.log_file, kLogBytesMax);
    auto process =
        WorkerProcess::start({.argv = command.argv, .environment = command.environment, .log_file = replica.log_file});
    if (!process) return worker_failed(model, replica, process.error().message, false);
    replica.process = std::move(*process);
    stored(store_->put_worker(stored_row(model, replica)));
  }
  event(model, replica.id, replica.restarts > 0 ? "restarting" : "loading",
        replica.process ? fmt::format("process {}", replica.process->id().pid) : replica.address);
}

void FleetOwner::adopt(const StoredWorkerRow& row, FleetModel& model) {
  auto process = WorkerProcess::adopt(row.process);
  if (!process) {
    note(fmt::format("{}: its process {} is gone, it is started anew", row.replica, row.process.pid));
    stored(store_->remove_worker(row.replica));
    return;
  }
  FleetReplica replica;
  replica.id = row.replica;
  replica.address = row.address;
  replica.base_path = row.base_path;
  replica.api_key = row.api_key;
  replica.model = row.model;
  replica.digest = row.digest;
  // One of other options, on its way out: its address tells whether it is ours.
  const bool is_ours = row.address.starts_with("unix:");
  replica.engine = is_ours ? "quern" : model.spec.engine == "quern" ? "" : model.spec.engine;
  if (row.digest == model.digest) replica.adapters = model.spec.adapters;
  replica.started_ms = row.started_ms;
  replica.devices = adopted_devices(row, model);
  replica.health_path = find_worker_kind(model.spec.engine)->health_path;
  replica.process = std::move(*process);
  replica.adopted = true;
  replica.log_file = options_.folder / "logs" / log_file_name(replica.id);
  replica.life = ++shared_->life;  // before the thread runs
  replica.plan.state = ReplicaState::kLoading;
  // It may have loaded for a while: not longer than it has lived.
  replica.plan.since_ms =
      steady_ms() -
      std::clamp<int64_t>(unix_ms() - row.started_ms, 0, std::max<int64_t>(0, options_.start_timeout.count() - 10000));
  replica.plan.current = row.digest == model.digest;
  replica.plan.dismissed = row.dismissed;
  model.replicas.push_back(std::move(replica));
}

void FleetOwner::end_strays(const std::set<int64_t>& known_pids) {
  for (const MarkedProcess& process : find_marked_processes(kReplicaVariable, mark(""))) {
    // A worker's own children carry its mark too.
    if (known_pids.contains(process.id.pid) || known_pids.contains(process.session)) continue;
    auto stray = WorkerProcess::adopt(process.id);
    if (!stray) continue;
    note(fmt::format("process {} belongs to no model any more ({}): killed", process.id.pid,
                     process.value.substr(mark("").size())));
    stray->kill_group();
    // Gone before its memory is given to another.
    for (int32_t i = 0; i < 100 && !stray->poll_end(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::error_code ignored;
  std::set<std::string> used;
  for (const auto& model : models_) {
    for (const FleetReplica& replica : model->replicas) used.insert(replica.address);
  }
  for (const auto& entry : fs::directory_iterator(socket_folder_, ignored)) {
    if (!used.contains("unix:" + entry.path().string())) fs::remove(entry.path(), ignored);
  }
}

void FleetOwner::poll_workers() {
  for (const auto& model : models_) {
    if (model->pull) poll_pull(*model);
    for (FleetReplica& replica : model->replicas) {
      if (!replica.process) continue;
      if (const auto end = replica.process->poll_end()) worker_ended(*model, replica, *end);
    }
  }
}

void FleetOwner::ask_workers() {
  const int64_t now = steady_ms();
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      const bool loading = replica.plan.state == ReplicaState::kLoading;
      if ((!loading && replica.plan.state != ReplicaState::kReady) || replica.plan.killed) continue;
      if (!replica.node.empty() || probes_->is_asking(replica.life)) continue;
      // A load of minutes is not asked fifty times a second.
      const int64_t interval = loading ? std::clamp((now - replica.plan.since_ms) / 50, kLoadingAskMs, int64_t{500})
                                       : options_.health_interval.count();
      if (now - replica.asked_ms < interval) continue;
      replica.asked_ms = now;
      probes_->ask(
          replica.life,
          {.address = replica.address, .path = replica.base_path + replica.health_path, .api_key = replica.api_key},
          loading ? std::min(options_.health_timeout, std::chrono::milliseconds(2000)) : options_.health_timeout);
    }
  }
}

void FleetOwner::answered(const WorkerProbes::Answer& answer) {
  if (node_answered(answer)) return;
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      if (replica.life != answer.id) continue;
      const bool well = answer.status == 200;
      if (replica.plan.state == ReplicaState::kLoading) {
        if (well && !replica.plan.killed) became_ready(*model, replica);
      } else if (replica.plan.state == ReplicaState::kReady) {
        // 503 and 429: alive, and busy. Another error of a server says that it is broken inside.
        const bool alive =
            well || answer.status == 503 || answer.status == 429 || (answer.status > 0 && answer.status < 500);
        if (alive) replica.plan.answered_ms = steady_ms();
      }
      return;
    }
  }
}

void FleetOwner::became_ready(FleetModel& model, FleetReplica& replica) {
  const int64_t now = steady_ms();
  if (!replica.adopted) replica.load_seconds = static_cast<double>(now - replica.plan.since_ms) / 1000;
  replica.plan.state = ReplicaState::kReady;
  replica.plan.since_ms = replica.plan.answered_ms = now;
  replica.message.clear();
  model.failed = false;
  model.message.clear();
  show_router(model, replica);
  if (!replica.devices.empty() && replica.node.empty()) watch_->look_now();
  const bool adopted = std::exchange(replica.adopted, false);
  const int64_t pid = replica.process ? replica.process->id().pid : replica.node_pid;
  std::string text = adopted ? fmt::format("process {}", pid) : fmt::format("loaded in {:.2f} s", replica.load_seconds);
  if (!replica.node.empty()) text += " on " + replica.node;
  event(model, replica.id, adopted ? "adopted" : "ready", std::move(text));
}

void FleetOwner::show_router(const FleetModel& model, const FleetReplica& replica) {
  // Whatever the engine there, it is another machine's server that is asked: it speaks as ours does, and knows an
  // adapter beside its own name of the replica.
  const bool is_here = replica.node.empty();
  auto adapters = is_here ? adapter_calls(replica.engine, served_name(model), replica.adapters)
                          : adapter_calls_of_node(replica.model, replica.adapters);
  const std::lock_guard lock(shared_->router_mutex);
  shared_->router.set_ready(model.spec.uid,
                            {.replica = replica.id,
                             .address = replica.address,
                             .base_path = replica.base_path,
                             .api_key = replica.api_key,
                             .model = replica.model,
                             .engine = is_here ? replica.engine : "quern",
                             .fields = {},
                             .adapters = std::move(adapters)},
                            replica.life);
}

void FleetOwner::clean_up(FleetModel& model, FleetReplica& replica) {
  {
    const std::lock_guard lock(shared_->router_mutex);
    shared_->router.set_gone(model.spec.uid, replica.id);
  }
  probes_->forget(replica.life);
  std::error_code ignored;
  if (replica.address.starts_with("unix:")) fs::remove(replica.address.substr(5), ignored);
  if ((replica.process || !replica.node.empty()) && !model.leaving) stored(store_->remove_worker(replica.id));
  replica.process.reset();
  free_devices(replica);
  replica.node.clear();
  replica.node_pid = 0;
  replica.node_progress = 0;
  replica.memory = {};
  replica.address.clear();
  changed_ = true;
}

void FleetOwner::worker_ended(FleetModel& model, FleetReplica& replica, const WorkerProcess::End& end) {
  const ReplicaState before = replica.plan.state;
  const bool asked = before == ReplicaState::kDraining;
  if (asked || model.leaving) {
    clean_up(model, replica);
    replica.plan.state = ReplicaState::kStopped;
    replica.plan.since_ms = steady_ms();
    replica.plan.terminated_ms = 0;
    replica.plan.killed = false;
    replica.message.clear();
    if (!model.leaving) event(model, replica.id, "stopped", end.text);
    return;
  }
  const bool loading = before == ReplicaState::kLoading;
  std::string why = end.text;
  if (!replica.message.empty()) why += ": " + replica.message;
  if (const std::string line = loading ? last_log_line(replica.log_file) : ""; !line.empty()) why += ": " + line;
  // Exit code 2 of our own engine: bad input, which the next try will find as bad.
  worker_failed(model, replica, why, loading && model.spec.engine == "quern" && end.exit_code == 2);
}

void FleetOwner::worker_failed(FleetModel& model, FleetReplica& replica, const std::string& why, bool is_final) {
  replica.failed_node = replica.node.empty() ? kThisNode : replica.node;
  clean_up(model, replica);
  PlanReplica& plan = replica.plan;
  plan.failures = is_final ? std::max(plan.failures + 1, 7) : plan.failures + 1;
  plan.state = ReplicaState::kBackoff;
  plan.since_ms = steady_ms();
  plan.retry_ms = plan.since_ms + backoff_ms(plan.failures);
  plan.killed = false;
  plan.terminated_ms = 0;
  ++replica.restarts;
  replica.message = why;
  model.message = why;
  const bool serves = std::ranges::any_of(model.replicas, [](const FleetReplica& one) {
    return one.plan.state == ReplicaState::kReady && !one.plan.killed;
  });
  if (!serves && plan.failures >= kFailuresTold) model.failed = true;
  event(model, replica.id, "died", why);
}

void FleetOwner::measure() {
  measured_ms_ = steady_ms();
  int64_t own = 0;
  if (!nodes_.empty()) changed_ = true;  // what machines say of themselves
  for (const auto& model : models_) {
    for (FleetReplica& replica : model->replicas) {
      if (!replica.process) continue;
      const ProcessMemory memory = process_memory(replica.process->id().pid);
      changed_ |= std::exchange(replica.memory, memory).resident != memory.resident;
      own += memory.own;
      bound_log(replica.log_file, kLogBytesMax);
    }
  }
  const auto reserve = static_cast<int64_t>(options_.memory_reserve * static_cast<double>(total_memory_bytes()));
  budget_bytes_ =
      options_.memory_budget_bytes > 0 ? options_.memory_budget_bytes : available_memory_bytes() + own - reserve;
}

}  // namespace quern
