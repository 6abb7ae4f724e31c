// Commands about deployments: tasks, logs, actions and the files they leave.
import { type CommandSpec, type FlagSpec, LOG, RECIPE, TIMEOUT, WAIT } from './spec.ts'

const MESSAGE: FlagSpec = { flags: '-m, --message <text>', summary: 'Reason, shown in the history' }

const LOG_FLAGS: readonly FlagSpec[] = [
  { flags: '--failed', summary: 'Of the last failed deployment' },
  { flags: '-f, --follow', summary: 'Follow the log until the task ends' },
  { flags: '--phase <phase>', summary: 'Only this phase, for example build' },
  { flags: '--from-line <n>', summary: 'Start at this line' },
  { flags: '-O, --output <file>', summary: 'Save the exact bytes to a file (- for stdout)' },
]

const LIFECYCLE_FLAGS: readonly FlagSpec[] = [
  { flags: '-s, --service <service>', summary: 'Only this service' },
  WAIT,
  TIMEOUT,
  MESSAGE,
  LOG,
]

const loadTasksLog = async () => (await import('../commands/deployments/tasks-log.ts')).tasksLog

export const DEPLOYMENTS: readonly CommandSpec[] = [
  {
    path: 'up',
    summary:
      'Deploy this git checkout: make what is missing, follow the deployment, open the address',
    flags: [
      { flags: '--remote <name>', summary: 'Git remote with the repository (default: origin)' },
      { flags: '--repo <url>', summary: 'Address of the repository, in place of a remote' },
      { flags: '--branch <branch>', summary: 'Branch to deploy (default: the default branch)' },
      { flags: '--server <server>', summary: 'Server of a new project (default: the only one)' },
      { flags: '--domain <domain>', summary: 'Base domain of a new project' },
      { ...RECIPE, summary: 'docker or manual (default: what fits the files and the server)' },
      {
        flags: '--vars-from <file>',
        summary: 'Variables for a new environment, as KEY=value lines',
      },
      { flags: '--dry-run', summary: 'Show the plan and change nothing' },
      { flags: '--no-open', summary: 'Do not open the address in a browser' },
      TIMEOUT,
      LOG,
    ],
    examples: [
      'berth up',
      'berth up --dry-run',
      'berth up -p shop --domain shop.example.com --server fra-1 --yes',
    ],
    load: async () => (await import('../commands/up/up.ts')).up,
  },
  {
    path: 'deploy',
    summary: 'Start a deployment',
    flags: [
      WAIT,
      { flags: '--attach', summary: 'Wait for the running deployment instead of starting one' },
      TIMEOUT,
      {
        flags: '--commit <sha>',
        summary: "Deploy this commit (7 or more digits) instead of the branch's latest",
      },
      { flags: '--no-cache', summary: 'Build without caches' },
      MESSAGE,
      LOG,
    ],
    examples: [
      'berth deploy -p shop -e pr-42 --wait',
      'berth deploy -e staging --commit "$(git rev-parse HEAD)" --wait --timeout 20m',
    ],
    load: async () => (await import('../commands/deployments/deploy.ts')).deploy,
  },
  {
    path: 'rollback',
    summary: 'Deploy the commit of an earlier successful deployment again',
    args: '[task]',
    flags: [WAIT, TIMEOUT, MESSAGE, LOG],
    examples: ['berth rollback -p shop -e pr-42 --wait', 'berth rollback 805 -e staging --wait'],
    load: async () => (await import('../commands/deployments/rollback.ts')).rollback,
  },
  {
    path: 'restart',
    summary: 'Restart what is deployed, without a deployment',
    flags: LIFECYCLE_FLAGS,
    examples: ['berth restart -e staging --wait', 'berth restart -e pr-42 -s worker'],
    load: async () => (await import('../commands/deployments/lifecycle.ts')).restart,
  },
  {
    path: 'stop',
    summary: 'Stop what is deployed, until it is started or deployed again',
    flags: LIFECYCLE_FLAGS,
    examples: ['berth stop -p shop -e pr-42 --wait', 'berth stop -e pr-42 -s worker'],
    load: async () => (await import('../commands/deployments/lifecycle.ts')).stop,
  },
  {
    path: 'start',
    summary: 'Start what was stopped',
    flags: LIFECYCLE_FLAGS,
    examples: ['berth start -p shop -e pr-42 --wait', 'berth start -e pr-42 -s worker'],
    load: async () => (await import('../commands/deployments/lifecycle.ts')).start,
  },
  {
    path: 'tasks list',
    summary: 'List the tasks of an environment or project',
    flags: [
      {
        flags: '--status <status>',
        summary: 'queued, running, succeeded, failed, canceled',
        repeat: true,
        choices: ['queued', 'running', 'succeeded', 'failed', 'canceled'],
      },
      {
        flags: '--type <type>',
        summary:
          'deploy, action, destroy, restart, stop, start, backup, restore or all (default deploy)',
        choices: [
          'deploy',
          'action',
          'destroy',
          'restart',
          'stop',
          'start',
          'backup',
          'restore',
          'all',
        ],
      },
      { flags: '-n, --limit <n>', summary: 'Maximum number (default 20)' },
    ],
    examples: ['berth tasks -e pr-42', 'berth tasks -e pr-42 --status failed -n 5'],
    load: async () => (await import('../commands/deployments/tasks.ts')).tasksList,
  },
  {
    path: 'tasks show',
    summary: 'Show a task with its phases',
    args: '<id>',
    examples: ['berth tasks show 813'],
    load: async () => (await import('../commands/deployments/tasks.ts')).tasksShow,
  },
  {
    path: 'tasks cancel',
    summary: 'Cancel a task',
    args: '<id>',
    examples: ['berth tasks cancel 813'],
    load: async () => (await import('../commands/deployments/tasks.ts')).tasksCancel,
  },
  {
    path: 'tasks log',
    summary: 'Print the raw log of a task',
    args: '[id]',
    flags: LOG_FLAGS,
    examples: ['berth tasks log 813', 'berth tasks log -e pr-42 --failed -O build.log'],
    load: loadTasksLog,
  },
  {
    path: 'actions list',
    summary: 'List the actions of an environment',
    examples: ['berth actions -e pr-42', 'berth actions -p shop -e pr-42 --json'],
    load: async () => (await import('../commands/deployments/actions.ts')).actionsList,
  },
  {
    path: 'actions history',
    summary: 'List what became of the scheduled runs of an action',
    args: '<name>',
    examples: ['berth actions history backup -e main', 'berth actions history backup --json'],
    load: async () => (await import('../commands/deployments/actions-history.ts')).actionsHistory,
  },
  {
    path: 'actions run',
    summary: 'Run an action; --wait prints its output',
    args: '<name>',
    flags: [
      WAIT,
      TIMEOUT,
      MESSAGE,
      LOG,
      { flags: '--download <dir>', summary: 'Wait, then download the files that it made' },
    ],
    examples: [
      'berth actions run seed -e pr-42 --wait',
      'berth actions run wipe -p shop -e pr-42 --yes --message "before the demo"',
    ],
    load: async () => (await import('../commands/deployments/actions.ts')).actionsRun,
  },
  {
    path: 'artifacts list',
    summary: 'List the files that an action made',
    args: '[task]',
    examples: ['berth artifacts list 830', 'berth artifacts list -e pr-42'],
    load: async () => (await import('../commands/files/artifacts.ts')).artifactsList,
  },
  {
    path: 'artifacts download',
    summary: 'Download files; each arrives complete or not at all',
    args: '[task|name...]',
    flags: [
      { flags: '-d, --dir <dir>', summary: 'Target folder (default .)' },
      { flags: '--force', summary: 'Replace existing files' },
      { flags: '--direct', summary: 'Use only SSH, not the control plane' },
    ],
    examples: [
      'berth artifacts download 830 -d ./out',
      'berth artifacts download 830 exports/orders.csv --force',
    ],
    load: async () => (await import('../commands/files/artifacts.ts')).artifactsDownload,
  },
  {
    path: 'diagnose',
    summary: 'Explain why the last failed deployment failed, or what became of any task',
    flags: [
      { flags: '--task <id>', summary: 'This task, of any type and state' },
      { flags: '--lines <n>', summary: 'Maximum lines of output (default 200)' },
    ],
    examples: [
      'berth diagnose -e pr-42',
      'berth diagnose -e pr-42 --json',
      'berth diagnose --task 813',
    ],
    load: async () => (await import('../commands/deployments/diagnose.ts')).diagnose,
  },
  {
    path: 'metrics',
    summary: 'Show processor, memory, requests and response times of an environment',
    flags: [{ flags: '--range <range>', summary: 'hour, day or week (default hour)' }],
    examples: ['berth metrics -e pr-42', 'berth metrics -e staging --range week --json'],
    load: async () => (await import('../commands/environments/metrics.ts')).metrics,
  },
  {
    path: 'logs',
    summary: 'Print the output of the services of an environment',
    flags: [
      { flags: '-s, --service <service>', summary: 'Only this service', repeat: true },
      { flags: '-f, --follow', summary: 'Follow the output until Ctrl-C' },
      {
        flags: '-n, --lines <n>',
        summary: 'Last lines of each service (default 100; all with --since)',
      },
      { flags: '--tail <n>', summary: 'Same as --lines' },
      { flags: '--since <time>', summary: 'Start time: 2h, 3d or 2026-11-14T07:31:00Z' },
      { flags: '--until <time>', summary: 'End time, in the same form' },
      { flags: '--grep <pattern>', summary: 'Only lines that match this regular expression' },
      {
        flags: '--level <level>',
        summary: 'Only lines of this level: error, warn, info, debug, other',
        repeat: true,
      },
      { flags: '-t, --timestamps', summary: 'Print times with full precision' },
    ],
    examples: [
      'berth logs -e pr-42 -s web -f --since 26h',
      'berth logs -e pr-42 --since 1h --level error --level warn',
      "berth logs -p shop -e staging --since 3d --until 2d --grep 'ERROR|WARN'",
    ],
    load: async () => (await import('../commands/deployments/logs.ts')).logs,
  },
  {
    path: 'requests',
    summary: 'Print the requests to an environment that the proxy answered',
    flags: [
      { flags: '-s, --service <service>', summary: 'Only this service', repeat: true },
      { flags: '-f, --follow', summary: 'Follow the requests until Ctrl-C' },
      { flags: '-n, --lines <n>', summary: 'Last requests (default 100; all with --since)' },
      { flags: '--since <time>', summary: 'Start time: 2h, 3d or 2026-11-14T07:31:00Z' },
      { flags: '--until <time>', summary: 'End time, in the same form' },
      {
        flags: '--status <class>',
        summary: 'Only these answers: 2xx, 3xx, 4xx, 5xx',
        repeat: true,
      },
      { flags: '--search <text>', summary: 'Only requests with this text in path, host or client' },
    ],
    examples: ['berth requests -e pr-42 -f', 'berth requests -e staging --since 1h --status 5xx'],
    load: async () => (await import('../commands/deployments/requests.ts')).requests,
  },
  {
    path: 'log',
    summary: 'Same as tasks log',
    args: '[id]',
    flags: LOG_FLAGS,
    examples: ['berth log -e pr-42 -f'],
    hidden: true,
    load: loadTasksLog,
  },
]
