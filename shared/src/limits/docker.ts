// Numbers that bound the agent's work with a Docker engine, under the rule of limits.ts: every number with its reason,
// times in milliseconds, sizes in bytes.
import { GiB, KiB, MINUTE, MiB, SECOND } from './units.ts'

/** Calls of the engine. */
export const ENGINE = {
  /** Sizes of everything, and pruning the build cache: they walk the disk. */
  measureMs: 10 * MINUTE,
  /** An ordinary call: create, start, inspect. An engine under load, or on a slow disk, takes seconds. */
  callMs: 60 * SECOND,
  /** Beyond the time a container may take to stop. */
  stopMs: 30 * SECOND,
  /** Layers of a large image are deleted one by one. */
  removeImageMs: 5 * MINUTE,
  /** One answer: a list of some thousand containers. */
  answerBytes: 64 * MiB,
  /** Of what the engine says, for a message. */
  reasonLength: 500,
  /** One message of a stream (build, pull, events). */
  messageBytes: 16 * MiB,
  /** A registry, or the engine, that says nothing for so long is not working on the pull any more. */
  pullSilenceMs: 5 * MINUTE,
  /** One record of a log: what is larger is no log. */
  frameBytes: 4 * MiB,
  /** The engine cuts longer lines into parts of exactly this size. */
  logCutBytes: 16 * KiB,
  /** The last lines of a container, for a message. */
  tailBytes: 256 * KiB,
  /** Reading a log to its end before its container is removed. */
  logEndMs: 5 * SECOND,
} as const

/** Builds of images. */
export const BUILDS = {
  /** Steps whose state is remembered; a Dockerfile of a thousand lines in ten stages has as many. */
  steps: 10_000,
  /** Last lines of the step that failed. */
  lastLines: 50,
  lastBytes: 16 * KiB,
  /** Looks for new RUN commands, to bound them: one that lives shorter than this does little harm. */
  fenceMs: 200,
  /** A build yields to live services, which have 1,024 (cgroup version 1) or 100 (version 2). */
  cpuShares: 256,
  cpuWeight: 25,
  /** Compilers start many; a fork bomb ends here. */
  pids: 4_096,
  /** RUN commands of an engine that are looked at. */
  bundles: 1_000,
  /** Each RUN command of a fork's build, whatever the environment may use. */
  untrustedMemoryBytes: GiB,
  untrustedCpus: 1,
  untrustedPids: 1_024,
  /** When memory runs out the kernel takes builds before live services (500). */
  oomScore: 900,
  /** Of a step in a message; `RUN` may hold a whole script. */
  nameLength: 200,
  /** A piece of a file on its way to the engine. */
  chunkBytes: 64 * KiB,
  /** Looking at the files of a context, before other work has its turn. */
  breathMs: 20,
  /** A piece of a file whose content is compared with that of the last build. */
  digestBytes: 1 * MiB,
  /** What is remembered of the last build's files; of more than these nothing is. */
  timesFiles: 100_000,
  timesBytes: 64 * MiB,
  /** Files of a context: each is remembered until the build is over. */
  contextEntries: 1_000_000,
  /** One message of the engine about files: a number, or a sentence. */
  packetBytes: 1 * MiB,
  /** A question of the engine: it names each line of a .dockerignore in a header of its own. */
  questionBytes: 4 * MiB,
  questionHeaders: 50_000,
  /** The first thing an engine does for a build is to ask for its Dockerfile. */
  questionMs: 60 * SECOND,
  /** A warm-up that takes longer teaches nothing. */
  warmUpMs: 2 * SECOND,
} as const

/** Containers of environments. */
export const CONTAINERS = {
  files: 65_536,
  /** Under pressure the kernel ends a deployed service before the programs that keep the server alive. */
  oomScore: 500,
  logSize: '20m',
  logFiles: '5',
  /** Writable /tmp of untrusted code, whose root is read-only; counts as its memory. */
  temporaryBytes: 64 * MiB,
} as const

/** Networks of environments. */
export const NETWORKS = {
  /** 61 containers, and 1,024 networks in the default pool. */
  prefix: 26,
  /** Subnets that the engine refuses although they look free, before the search is given up. */
  tries: 64,
} as const
