// Every key of .service.yml: its place, its value, its help text. The checks, the suggestions, the exported JSON Schema
// and the types of `normalize.ts` are derived from this table. Rules between services (a volume that exists, a domain
// given twice) are in `meaning.ts`.
import { z } from 'zod'
import { SERVICE_FILE } from '../limits/limits.ts'
import {
  actionTimeout,
  artifactPattern,
  buildTarget,
  cpus,
  cron,
  dockerHealth,
  domain,
  drain,
  env,
  envKey,
  image,
  manualHealth,
  name,
  port,
  RELATIVE,
  relativePath,
  replicas,
  restart,
  retention,
  rootFile,
  sharedPath,
  size,
  stepTimeout,
  stopSignal,
  stopTimeout,
  timezone,
  tmpfs,
  tools,
  unprintable,
  urlPath,
  user,
  volume,
} from './values.ts'
import { about, also, flag, list, map, named, say, text } from './vocabulary.ts'

/** Keys that every service with an address has, in both recipes. */
const routing = {
  domain: domain.optional(),
  path: urlPath.optional(),
  default: about(
    flag(),
    "Serves the environment's own domain. Without it: the service named 'web', else the only " +
      'routed service.',
  ).optional(),
  auth: about(
    flag(),
    'false: no HTTP Basic Auth in front of this service even where the environment has ' +
      'credentials.',
    { default: true },
  ).optional(),
}

const isPublic = about(
  flag(),
  "false: the service has a 'port' to check and for other services, but no address.",
  { default: true },
)

const customVariables = list(
  envKey,
  { noun: 'variable', expects: 'a list of variables', max: SERVICE_FILE.env, isUnique: true },
  {
    description:
      'Custom variables that this service gets. Default: all of them. Its env and the system ' +
      'variables are always there.',
    examples: [['DATABASE_URL']],
  },
)

const restartKey = about(
  restart,
  'unhealthy: also start it again when its health check fails three times in a row, with growing ' +
    'pauses. Default: only when its process ends.',
)

const drainKey = about(
  drain,
  'How long the version before may finish open requests after the switch. Default 30s.',
)

// --- docker --------------------------------------------------------------------------------------

const buildMap = map({
  context: about(relativePath, "Folder sent to the build. Default '.'.").optional(),
  dockerfile: about(relativePath, "Relative to the context. Default 'Dockerfile'.").optional(),
  target: about(buildTarget, 'Build stage to stop at.').optional(),
  args: about(
    env,
    'Build arguments. They stay in the image: never a secret. May use the system variables, ' +
      `\${service.<name>.url} for the address of another service, and \${NAME} for a custom ` +
      `variable; $\${ is a literal \${.`,
  ).optional(),
  secrets: list(
    envKey,
    { noun: 'variable', expects: 'a list of variables', max: SERVICE_FILE.env, isUnique: true },
    {
      description:
        'Custom variables for RUN --mount=type=secret,id=NAME. They stay out of the image, its ' +
        'history and the cache.',
      examples: [['NPM_TOKEN']],
    },
  ).optional(),
  ssh: say(
    z.enum(['deploy']),
    { expects: "deploy, for the project's deploy key" },
    {
      description:
        "deploy: RUN --mount=type=ssh may sign with the project's deploy key. The key itself " +
        'never reaches the build.',
    },
  ).optional(),
})

const dockerService = map(
  {
    build: say(
      z.union([relativePath, buildMap]),
      { expects: `${RELATIVE}, or a map with context, dockerfile, target, args, secrets, ssh` },
      { description: "Build context in the repository, or a map. Either 'build' or 'image'." },
    ).optional(),
    image: image.optional(),
    command: say(
      z.union([text(), list(say(z.string(), { expects: 'text' }), { noun: 'word', min: 1 })]),
      { expects: 'a command, or a list of its words' },
      {
        description:
          "Replaces the image's command. A string goes through the image's /bin/sh -c; a list " +
          'is executed as it is.',
      },
    ).optional(),
    entrypoint: list(
      say(z.string(), { expects: 'text' }),
      { noun: 'word', expects: 'a list of words such as [/app/start], or []' },
      {
        description:
          "Replaces the image's entrypoint and its command. An empty list removes the entrypoint.",
      },
    ).optional(),
    user: about(user, "User of the processes. Default: the image's.").optional(),
    port: about(
      port,
      'Port the service listens on inside its container. Without it the service is not routed. ' +
        'Nothing is published on the server.',
    ).optional(),
    public: isPublic.optional(),
    ...routing,
    health: dockerHealth.optional(),
    env: env.optional(),
    variables: customVariables.optional(),
    release: about(
      text(),
      'Command run once in a fresh container of this service, with its variables, before ' +
        'traffic moves. A non-zero exit fails the deployment; the version before keeps running.',
    ).optional(),
    backup: map(
      {
        command: about(
          text(),
          'Writes the backup to its standard output, inside the running container, with its ' +
            'variables. A non-zero exit fails the backup.',
          { examples: ['pg_dump -Fc -U postgres app'] },
        ),
        restore: about(
          text(),
          'Reads such a backup from its standard input and replaces the data by it. If it exits ' +
            'with another number than 0, the data of before is put back.',
          { examples: ['pg_restore --clean --if-exists -U postgres -d app'] },
        ),
        timeout: about(stepTimeout, "Default: what is left of the task's time.").optional(),
      },
      {
        description:
          'For databases: what a backup of the environment stores in place of the volumes of this ' +
          'service. Without it, the volumes are archived while the service is paused.',
      },
    ).optional(),
    depends_on: list(
      name,
      { noun: 'service', expects: 'a list of services', isUnique: true },
      {
        description:
          'Services that must be up (healthy, where they have a check) before this one starts.',
      },
    ).optional(),
    volumes: list(
      volume,
      { noun: 'volume', max: SERVICE_FILE.volumes },
      {
        description:
          'name:/path or name:/path:ro, the name from docker.volumes. Host paths are not possible, ' +
          'nor are /proc, /sys, /dev and /run/berth.',
      },
    ).optional(),
    tmpfs: list(
      tmpfs,
      { noun: 'path', max: SERVICE_FILE.volumes, isUnique: true },
      {
        description:
          'Folders in memory, as /path or /path:size, empty at each start. They count against the ' +
          'memory limit. Default size 64m.',
      },
    ).optional(),
    shm_size: about(size, 'Size of /dev/shm. Default 64m.').optional(),
    replicas: about(
      replicas,
      'Containers of this service on its server. Requests are shared among the healthy ones. ' +
        'memory and cpus are limits of each. Default 1.',
    ).optional(),
    restart: restartKey.optional(),
    memory: about(size, 'Memory limit.').optional(),
    cpus: about(cpus, 'CPU limit, in cores.').optional(),
    stop_timeout: about(
      stopTimeout,
      'Time between the stop signal and the kill. Default 10s.',
    ).optional(),
    stop_signal: about(stopSignal, "Signal that asks it to stop. Default: the image's.").optional(),
    drain: drainKey.optional(),
  },
  { id: 'dockerService' },
  {
    atLeastOne: ['build', 'image'],
    atMostOne: [['build', 'image']],
    needs: { public: 'port' },
  },
)

const docker = map(
  {
    services: named(
      name,
      dockerService,
      { noun: 'service', min: 1, max: SERVICE_FILE.services },
      {
        description:
          'The containers of the environment, by name. A service reaches another by its name.',
      },
    ),
    volumes: list(
      name,
      { noun: 'volume', max: SERVICE_FILE.volumes, isUnique: true },
      { description: 'Named volumes: kept across deployments, removed with the environment.' },
    ).optional(),
  },
  { id: 'docker', description: 'Read when the environment uses the docker recipe.' },
)

// --- manual --------------------------------------------------------------------------------------

const manualService = map(
  {
    port: say(
      z.union([port, z.literal('auto')]),
      { expects: 'a whole number from 1 to 65535, or auto' },
      {
        description:
          "Port on the server's loopback. auto: a free one (two that alternate, with 'run'), " +
          'picked once for the environment and given as $PORT_<NAME>.',
      },
    ).optional(),
    socket: about(relativePath, 'Unix socket, relative to $BERTH_SOCKET_DIR.').optional(),
    root: about(relativePath, 'Folder of static files, relative to the checkout.').optional(),
    run: about(
      text(),
      "Long-running command (sh -eu) that Berth starts as the environment's user, keeps running " +
        "and replaces on each deployment: without a gap with 'port: auto', else stopped, then " +
        "started. Its output is the service's log. Without 'run' Berth only routes.",
      { examples: ['exec node dist/server.js'] },
    ).optional(),
    dir: about(relativePath, "With 'run': working folder, relative to the checkout.").optional(),
    env: env.optional(),
    variables: customVariables.optional(),
    memory: about(size, "With 'run': memory limit.").optional(),
    cpus: about(cpus, "With 'run': CPU limit, in cores.").optional(),
    stop_timeout: about(
      stopTimeout,
      "With 'run': time between the stop signal and the kill. Default 10s.",
    ).optional(),
    restart: restartKey.optional(),
    drain: drainKey.optional(),
    public: isPublic.optional(),
    ...routing,
    health: manualHealth.optional(),
  },
  {
    id: 'manualService',
    description:
      "Exactly one of 'port', 'socket', 'root'; with 'run' also none (not routed). 'root' and " +
      "'run' exclude each other. A line of the Procfile stands for 'run'.",
  },
  {
    // that one of them is there, and what needs `run`, is checked in meaning.ts: a Procfile may have the command
    atMostOne: [
      ['port', 'socket', 'root'],
      ['root', 'run'],
    ],
    needs: { public: 'port' },
    refused: {
      replicas:
        "a manual service is one process on one port; start more workers inside its 'run', or use " +
        'the docker recipe',
    },
  },
)

const step = say(
  z.union([
    text(),
    map({
      name: about(
        text({ max: SERVICE_FILE.titleCharacters }),
        'Title of the step in the log. Default: the first line of the command.',
      ).optional(),
      run: about(text(), 'Shell command (sh -eu).'),
      dir: about(relativePath, 'Working folder, relative to the checkout.').optional(),
      env: env.optional(),
      timeout: about(stepTimeout, "Default: what is left of the task's time.").optional(),
      allow_failure: about(
        flag(),
        'true: a non-zero exit is shown as a warning and the next step runs.',
        { default: false },
      ).optional(),
    }),
  ]),
  { expects: "a command, or a map with 'run'" },
  { id: 'step' },
)

const manual = map(
  {
    deploy: list(
      step,
      { noun: 'step', expects: 'a list of commands', min: 1, max: SERVICE_FILE.steps },
      { description: 'Run in order by a deployment. The first failure stops it.' },
    ),
    destroy: list(
      step,
      { noun: 'step', expects: 'a list of commands', max: SERVICE_FILE.steps },
      { description: 'Run in order before the environment is removed from its server.' },
    ).optional(),
    services: named(
      name,
      manualService,
      { noun: 'service', max: SERVICE_FILE.services },
      {
        description:
          'What is routed to (a port, a socket, a folder of static files) and what Berth keeps ' +
          "running ('run').",
      },
    ).optional(),
    procfile: about(
      rootFile,
      "Procfile in the root of the repository: each line is a service with 'run', 'web' has " +
        "'port: auto', and 'release' runs once after the deploy steps. Entries of 'services' add keys.",
      { examples: ['Procfile'] },
    ).optional(),
    tools: tools.optional(),
    shared: list(
      sharedPath,
      { noun: 'path', expects: 'a list of paths', max: SERVICE_FILE.volumes, isUnique: true },
      {
        description:
          'Files and folders that survive deployments, relative to the checkout. Each deployment ' +
          'links them into $BERTH_SHARED_DIR. They are removed with the environment.',
        examples: [['storage', 'db.sqlite3']],
      },
    ).optional(),
    env: env.optional(),
  },
  {
    id: 'manual',
    description:
      'Read when the environment uses the manual recipe: its commands run directly on the ' +
      "server, as the environment's own user.",
  },
)

// --- actions -------------------------------------------------------------------------------------

export const RESULT_REPLACED = "'result: file' was replaced by artifacts.paths in v1.13.0"

const artifacts = map(
  {
    paths: list(
      artifactPattern,
      {
        noun: 'pattern',
        expects: 'a list of patterns',
        min: 1,
        max: SERVICE_FILE.artifactPatterns,
      },
      {
        description:
          "Glob patterns relative to the action's folder (*, **, ?, [..], {a,b}). One download " +
          'per file.',
      },
    ),
    retention: about(
      retention,
      'How long the files stay available. Default 7d, at most 90d.',
    ).optional(),
  },
  { description: 'Files to collect after the command.' },
)

const action = map(
  {
    title: about(
      text({ max: SERVICE_FILE.titleCharacters }),
      "Label of the button. Default: the action's name.",
    ).optional(),
    description: about(
      text({ min: 0, max: SERVICE_FILE.descriptionCharacters }),
      'What it does, shown beside the button.',
    ).optional(),
    run: about(text(), 'Shell command.'),
    service: about(
      name,
      'docker: the service whose container runs it. Default: the default service. Not read by ' +
        'manual.',
    ).optional(),
    dir: about(
      also(text({ max: SERVICE_FILE.pathCharacters }), { fault: unprintable }),
      'Working folder. docker: in the container, default its working directory. manual: ' +
        'relative to the checkout.',
    ).optional(),
    timeout: about(actionTimeout, 'Default 30m, at most 6h.').optional(),
    confirm: say(
      z.union([z.boolean(), text({ max: SERVICE_FILE.questionCharacters })]),
      {
        expects: `true, false, or a question of at most ${SERVICE_FILE.questionCharacters} letters`,
      },
      { description: "Ask before it starts; a string is the question's text." },
    ).optional(),
    schedule: say(
      z.union([
        cron,
        map({
          cron: about(cron, 'Minute, hour, day of the month, month, day of the week.'),
          timezone: about(timezone, 'Time zone of these fields. Default UTC.').optional(),
        }),
      ]),
      { expects: "five cron fields such as '0 3 * * *', or a map with cron, timezone" },
      {
        description:
          'Runs it by itself at these times: minute, hour, day of the month, month, day of the ' +
          'week. Time zone UTC, or that of the map. Runs never overlap.',
        examples: ['0 3 * * *'],
      },
    ).optional(),
    artifacts: artifacts.optional(),
    result: say(
      z.enum(['file']),
      { expects: 'file (and is of no use: declare the files in artifacts.paths)' },
      {
        description:
          'Replaced by artifacts.paths in v1.13.0; an action that still has it stays disabled.',
        deprecationMessage: `${RESULT_REPLACED}; this action stays disabled until migrated.`,
      },
    ).optional(),
  },
  { id: 'action' },
)

// --- the file ------------------------------------------------------------------------------------

export const serviceFileSchema = map(
  {
    version: say(
      z.literal(1),
      { expects: '1, the only version of this format' },
      { default: 1, description: 'Version of this file format.' },
    ).optional(),
    docker: docker.optional(),
    manual: manual.optional(),
    actions: named(
      name,
      action,
      { noun: 'action', max: SERVICE_FILE.actions },
      {
        description:
          'Commands on demand or on a schedule, synced to the environment on each deployment.',
      },
    ).optional(),
  },
  {
    title: '.service.yml',
    description:
      'Repository configuration of a Berth project. Each recipe reads only its own section; ' +
      "'actions' is read by both.",
    patternProperties: { '^x-': { description: 'Ignored. A place for YAML anchors.' } },
  },
  { atLeastOne: ['docker', 'manual'] },
)

/** The valid file as written. */
export type WrittenFile = z.infer<typeof serviceFileSchema>

/** Keys that only carry anchors. */
export const isIgnoredKey = (key: string): boolean => key.startsWith('x-')
