// Limits of the Docker engine: calls, builds, containers, networks, steps. Every number has its reason; times are in
// milliseconds, sizes in bytes.
import { GiB, KiB, MINUTE, MiB, SECOND } from '@berth/shared/units'

/** Calls of the engine. */
export const ENGINE = {
  /** Measuring all sizes, and pruning the build cache, which walk the disk. */
  measureMs: 10 * MINUTE,
  /** An ordinary call: create, start, inspect. An engine under load, or on a slow disk, takes seconds. */
  callMs: 60 * SECOND,
  /** Beyond the time that a container may take to stop. */
  stopMs: 30 * SECOND,
  /** Layers of a large image are deleted one by one. */
  removeImageMs: 5 * MINUTE,
  /** One answer: a list of some thousand containers. */
  answerBytes: 64 * MiB,
  /** Part of the engine's message that is shown. */
  reasonLength: 500,
  /** One message of a stream (build, pull, events). */
  messageBytes: 16 * MiB,
  /** A registry or engine that is silent for this long has stopped working on the pull. */
  pullSilenceMs: 5 * MINUTE,
  /** One record of a log; anything larger is not a log. */
  frameBytes: 4 * MiB,
  /** The engine cuts longer lines into parts of exactly this size. */
  logCutBytes: 16 * KiB,
  /** The last lines of a container, for a message. */
  tailBytes: 256 * KiB,
  /** To read a log to its end before its container is removed. */
  logEndMs: 5 * SECOND,
} as const

/** Builds of images. */
export const BUILDS = {
  /** Steps whose state is kept; a Dockerfile of a thousand lines in ten stages has as many. */
  steps: 10_000,
  /** Last lines of the failed step. */
  lastLines: 50,
  lastBytes: 16 * KiB,
  /** How often new RUN commands are found and limited; a shorter one does little harm. */
  fenceMs: 200,
  /** A build yields to live services, which have 1,024 (cgroup version 1) or 100 (version 2). */
  cpuShares: 256,
  cpuWeight: 25,
  /** Compilers start many; a fork bomb ends here. */
  pids: 4_096,
  /** RUN commands of an engine that are checked. */
  bundles: 1_000,
  /** Limit of each RUN command of a fork's build, regardless of the environment's ceilings. */
  untrustedMemoryBytes: GiB,
  untrustedCpus: 1,
  untrustedPids: 1_024,
  /** Below this part of the memory the kernel kills for the whole machine. */
  scarceMemory: 0.05,
  /** If memory runs out, the kernel kills builds before live services (500). */
  oomScore: 900,
  /** Length of a step in a message; `RUN` may hold a whole script. */
  nameLength: 200,
  /** A chunk of a file sent to the engine. */
  chunkBytes: 64 * KiB,
  /** Time spent on the files of a context before other work gets a turn. */
  breathMs: 20,
  /** A chunk of a file whose content is compared with that of the last build. */
  digestBytes: 1 * MiB,
  /** Limits of what is remembered of the last build's files; above them, nothing is. */
  timesFiles: 100_000,
  timesBytes: 64 * MiB,
  /** Files of a context; each is kept in memory until the build ends. */
  contextEntries: 1_000_000,
  /** One message of the engine about files: a number, or a sentence. */
  packetBytes: 1 * MiB,
  /** A request of the engine; it sends each line of a .dockerignore as a separate header. */
  questionBytes: 4 * MiB,
  questionHeaders: 50_000,
  /** An engine begins a build by asking for its Dockerfile. */
  questionMs: 60 * SECOND,
  /** A warm-up that takes longer is useless. */
  warmUpMs: 2 * SECOND,
} as const

/** Containers of environments. */
export const CONTAINERS = {
  files: 65_536,
  /** Under memory pressure the kernel kills a deployed service before the programs that keep the server alive. */
  oomScore: 500,
  logSize: '20m',
  logFiles: '5',
  /** A folder in memory without a size of its own, and /tmp of untrusted code; counts as memory of the container. */
  temporaryBytes: 64 * MiB,
} as const

/** Networks of environments. */
export const NETWORKS = {
  /** 61 containers, and 1,024 networks in the default pool. */
  prefix: 26,
  /** Apparently free subnets that the engine may refuse before the search gives up. */
  tries: 64,
} as const

/** Steps of the docker recipe. */
export const DOCKER_STEPS = {
  /** Containers of one deployment that are started concurrently. */
  parallel: 4,
  pullMs: 30 * MINUTE,
  releaseMs: 15 * MINUTE,
  /** Lines of a failed build or service in the message; the output has more. */
  messageLines: 5,
  messageLineLength: 300,
} as const
