// Commands about deployments: tasks, logs, actions and the files they leave.
import { type CommandSpec, type FlagSpec, LOG, TIMEOUT, WAIT } from './spec.ts'

const MESSAGE: FlagSpec = { flags: '-m, --message <text>', summary: 'why, shown in the history' }

const LOG_FLAGS: readonly FlagSpec[] = [
  { flags: '--failed', summary: 'of the last deployment that failed' },
  { flags: '-f, --follow', summary: 'go on until the task has ended' },
  { flags: '--phase <phase>', summary: 'only this phase, for example build' },
  { flags: '--from-line <n>', summary: 'start at this line' },
  { flags: '-O, --output <file>', summary: 'save every byte to a file (- is stdout)' },
]

const loadTasksLog = async () => (await import('../commands/deployments/tasks-log.ts')).tasksLog

export const DEPLOYMENTS: readonly CommandSpec[] = [
  {
    path: 'deploy',
    summary: 'start a deployment',
    flags: [
      WAIT,
      { flags: '--attach', summary: 'start nothing: wait for the deployment that is going on' },
      TIMEOUT,
      { flags: '--commit <sha>', summary: "this commit instead of the branch's head" },
      { flags: '--no-cache', summary: 'build without caches' },
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
    path: 'tasks list',
    summary: 'list the deployments of an environment, or without -e of the project',
    flags: [
      {
        flags: '--status <status>',
        summary: 'queued, running, succeeded, failed, canceled',
        repeat: true,
        choices: ['queued', 'running', 'succeeded', 'failed', 'canceled'],
      },
      {
        flags: '--type <type>',
        summary: 'deploy (default), action, destroy or all',
        choices: ['deploy', 'action', 'destroy', 'all'],
      },
      { flags: '-n, --limit <n>', summary: 'how many (20)' },
    ],
    examples: ['berth tasks -e pr-42', 'berth tasks -e pr-42 --status failed -n 5'],
    load: async () => (await import('../commands/deployments/tasks.ts')).tasksList,
  },
  {
    path: 'tasks show',
    summary: 'show a task with its phases',
    args: '<id>',
    examples: ['berth tasks show 813'],
    load: async () => (await import('../commands/deployments/tasks.ts')).tasksShow,
  },
  {
    path: 'tasks cancel',
    summary: 'stop a task',
    args: '<id>',
    examples: ['berth tasks cancel 813'],
    load: async () => (await import('../commands/deployments/tasks.ts')).tasksCancel,
  },
  {
    path: 'tasks log',
    summary: 'the raw log of a task',
    args: '[id]',
    flags: LOG_FLAGS,
    examples: ['berth tasks log 813', 'berth tasks log -e pr-42 --failed -O build.log'],
    load: loadTasksLog,
  },
  {
    path: 'actions list',
    summary: 'list the actions of an environment',
    examples: ['berth actions -e pr-42', 'berth actions -p shop -e pr-42 --json'],
    load: async () => (await import('../commands/deployments/actions.ts')).actionsList,
  },
  {
    path: 'actions run',
    summary: 'run an action; --wait shows its output',
    args: '<name>',
    flags: [
      WAIT,
      TIMEOUT,
      MESSAGE,
      LOG,
      { flags: '--download <dir>', summary: 'wait, then fetch the files it left' },
    ],
    examples: [
      'berth actions run seed -e pr-42 --wait',
      'berth actions run wipe -p shop -e pr-42 --yes --message "before the demo"',
    ],
    load: async () => (await import('../commands/deployments/actions.ts')).actionsRun,
  },
  {
    path: 'artifacts list',
    summary: 'list the files that an action left',
    args: '[task]',
    examples: ['berth artifacts list 830', 'berth artifacts list -e pr-42'],
    load: async () => (await import('../commands/files/artifacts.ts')).artifactsList,
  },
  {
    path: 'artifacts download',
    summary: 'fetch them, whole or not at all',
    args: '[task|name...]',
    flags: [
      { flags: '-d, --dir <dir>', summary: 'the folder to write to (.)' },
      { flags: '--force', summary: 'replace files that exist' },
      { flags: '--direct', summary: 'over SSH or not at all' },
    ],
    examples: [
      'berth artifacts download 830 -d ./out',
      'berth artifacts download 830 exports/orders.csv --force',
    ],
    load: async () => (await import('../commands/files/artifacts.ts')).artifactsDownload,
  },
  {
    path: 'diagnose',
    summary: 'why the most recent failed deployment failed',
    flags: [{ flags: '--lines <n>', summary: 'how much of its output at most (200)' }],
    examples: ['berth diagnose -e pr-42', 'berth diagnose -e pr-42 --json'],
    load: async () => (await import('../commands/deployments/diagnose.ts')).diagnose,
  },
  {
    path: 'logs',
    summary: 'what the containers of an environment wrote, of any age that is kept',
    flags: [
      { flags: '-s, --service <service>', summary: 'only this service', repeat: true },
      { flags: '-f, --follow', summary: 'go on until Ctrl-C' },
      {
        flags: '-n, --lines <n>',
        summary: 'the last lines, of each service named (100; all with --since)',
      },
      { flags: '--tail <n>', summary: 'the same as --lines' },
      { flags: '--since <time>', summary: '2h, 3d or 2026-11-14T07:31:00Z' },
      { flags: '--until <time>', summary: 'the same, for the end' },
      { flags: '--grep <pattern>', summary: 'only lines that match this regular expression' },
      { flags: '-t, --timestamps', summary: 'times with every digit there is' },
    ],
    examples: [
      'berth logs -e pr-42 -s web -f --since 26h',
      "berth logs -p shop -e staging --since 3d --until 2d --grep 'ERROR|WARN'",
    ],
    load: async () => (await import('../commands/deployments/logs.ts')).logs,
  },
  {
    path: 'log',
    summary: 'short for tasks log',
    args: '[id]',
    flags: LOG_FLAGS,
    examples: ['berth log -e pr-42 -f'],
    hidden: true,
    load: loadTasksLog,
  },
]
