// The command table: every command, its words, flags and examples, as data. Help, completions and
// the reference are made from it; the code of a command is loaded when it is called, so that
// starting is quick.
import type { Runnable } from '../context.ts'
import { CHANGE_COMMANDS } from './changes.ts'
import { MCP_COMMANDS } from './mcp.ts'
import { PEOPLE_COMMANDS } from './people.ts'
import { SSH_COMMANDS } from './ssh.ts'

export interface FlagSpec {
  /** commander's notation: "-e, --env <env>". */
  flags: string
  summary: string
  choices?: readonly string[]
  /** May be given several times. */
  repeat?: true
  required?: true
}

export interface CommandSpec {
  /** Words after `berth`. */
  path: string
  summary: string
  /** "<id>", "[project]". */
  args?: string
  argChoices?: readonly string[]
  flags?: readonly FlagSpec[]
  examples: readonly string[]
  /** Works, but is not listed. */
  hidden?: true
  /** Words after `--` are another program's, with what they look like. */
  passesRest?: true
  load(): Promise<Runnable>
}

export interface GroupSpec {
  aliases: readonly string[]
  summary: string
  /** What the bare word means. */
  fallback?: string
}

export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  { flags: '-p, --project <project>', summary: 'project, by name or id' },
  { flags: '-e, --env <env>', summary: 'environment: identifier, pull request, branch or id:N' },
  { flags: '-o, --org <org>', summary: 'organization, by id or slug' },
  { flags: '--url <url>', summary: 'address of the Berth server' },
  { flags: '--json', summary: "print the API's JSON" },
  { flags: '--no-color', summary: 'no colours, no animation' },
  { flags: '--no-input', summary: 'never ask anything' },
  { flags: '-y, --yes', summary: 'answer questions with yes' },
  { flags: '-q, --quiet', summary: 'no progress, only data and errors' },
  { flags: '-v, --verbose', summary: 'show every request on stderr' },
  { flags: '--cacert <file>', summary: 'PEM file of a private certificate authority' },
]

export const GROUPS: Readonly<Record<string, GroupSpec>> = {
  projects: { aliases: ['project'], summary: 'projects', fallback: 'list' },
  envs: { aliases: ['env'], summary: 'environments of a project', fallback: 'list' },
  vars: { aliases: ['var'], summary: 'custom variables of an environment', fallback: 'list' },
  tasks: { aliases: ['task'], summary: 'deployments and their logs', fallback: 'list' },
  actions: { aliases: ['action'], summary: 'actions of an environment', fallback: 'list' },
  artifacts: { aliases: ['artifact'], summary: 'files that an action left', fallback: 'list' },
  server: { aliases: ['servers'], summary: 'servers and their agents', fallback: 'list' },
  config: { aliases: [], summary: 'write and check .service.yml' },
  orgs: { aliases: ['org'], summary: 'organizations you belong to', fallback: 'list' },
  prs: { aliases: ['pr'], summary: 'pull requests of a project', fallback: 'list' },
  ssh: { aliases: [], summary: 'a shell or a command in an environment', fallback: 'shell' },
  user: { aliases: ['users'], summary: 'people of an organization', fallback: 'list' },
  token: { aliases: ['tokens'], summary: 'personal tokens', fallback: 'list' },
  mcp: { aliases: [], summary: 'tools for programs that speak MCP', fallback: 'serve' },
}

const TIMEOUT: FlagSpec = {
  flags: '--timeout <time>',
  summary: 'stop waiting after this long (60m); the task goes on',
}
const WAIT: FlagSpec = { flags: '--wait', summary: 'wait for the end; exit 3 when it fails' }
const MESSAGE: FlagSpec = { flags: '-m, --message <text>', summary: 'why, shown in the history' }
const LOG: FlagSpec = { flags: '--log', summary: 'show the raw log instead of the phases' }
const RECIPE: FlagSpec = {
  flags: '--recipe <recipe>',
  summary: 'docker or manual',
  choices: ['docker', 'manual'],
}
const LOG_FLAGS: readonly FlagSpec[] = [
  { flags: '--failed', summary: 'of the last deployment that failed' },
  { flags: '-f, --follow', summary: 'go on until the task has ended' },
  { flags: '--phase <phase>', summary: 'only this phase, for example build' },
  { flags: '--from-line <n>', summary: 'start at this line' },
  { flags: '-O, --output <file>', summary: 'save every byte to a file (- is stdout)' },
]
const loadTasksLog = async () => (await import('../commands/deployments/tasks-log.ts')).tasksLog

export const COMMANDS: readonly CommandSpec[] = [
  {
    path: 'login',
    summary: 'log in to a server, through a browser on any device',
    flags: [
      { flags: '--with-token', summary: 'read a token from stdin instead' },
      {
        flags: '--scope <scope>',
        summary: 'ask for this scope as well (admin: set-up, members, tokens)',
        choices: ['read', 'deploy', 'write', 'ssh', 'admin'],
        repeat: true,
      },
      { flags: '--name <name>', summary: 'what this device is called (its host name)' },
      { flags: '--no-browser', summary: 'do not open the page, only show its address' },
    ],
    examples: [
      'berth login --url https://deploy.example.com',
      'berth login --scope admin',
      'berth login --with-token --url https://deploy.example.com < token-file',
    ],
    load: async () => (await import('../commands/people/login.ts')).login,
  },
  {
    path: 'logout',
    summary: 'end the login at a server',
    flags: [{ flags: '--all', summary: 'of every server' }],
    examples: ['berth logout', 'berth logout --all'],
    load: async () => (await import('../commands/people/login.ts')).logout,
  },
  {
    path: 'whoami',
    summary: 'who is logged in, where, with which organizations',
    examples: ['berth whoami'],
    load: async () => (await import('../commands/people/login.ts')).whoami,
  },
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
    path: 'projects list',
    summary: 'list projects',
    examples: ['berth projects', 'berth projects --json'],
    load: async () => (await import('../commands/projects/projects.ts')).projectsList,
  },
  {
    path: 'projects show',
    summary: 'show a project',
    args: '[project]',
    examples: ['berth projects show shop'],
    load: async () => (await import('../commands/projects/projects.ts')).projectsShow,
  },
  {
    path: 'projects create',
    summary: 'create a project',
    args: '<name>',
    flags: [
      { flags: '--repo <url>', summary: 'address of the git repository', required: true },
      { flags: '--domain <domain>', summary: 'environments live below it', required: true },
      { flags: '--server <server>', summary: 'where it runs', repeat: true, required: true },
      RECIPE,
    ],
    examples: [
      'berth project create shop --repo git@github.com:acme/shop.git --domain shop.example.com ' +
        '--server fra-1',
    ],
    load: async () => (await import('../commands/projects/projects.ts')).projectCreate,
  },
  {
    path: 'envs list',
    summary: 'list the environments of a project',
    examples: ['berth envs -p shop'],
    load: async () => (await import('../commands/environments/envs.ts')).envsList,
  },
  {
    path: 'envs show',
    summary: 'show an environment',
    examples: ['berth envs show -e pr-42'],
    load: async () => (await import('../commands/environments/envs.ts')).envsShow,
  },
  {
    path: 'envs create',
    summary: 'create an environment',
    args: '<name>',
    flags: [
      { flags: '--branch <branch>', summary: 'what it deploys', required: true },
      { flags: '--server <server>', summary: "instead of the project's default" },
      RECIPE,
      { flags: '--protected', summary: 'only its owner may deploy and change it' },
      { flags: '--sticky', summary: 'listed first' },
      { flags: '--auth <user>', summary: 'ask visitors for this name and a password' },
      { flags: '--auth-stdin', summary: 'that password is read from stdin' },
      { flags: '--vars-from <file>', summary: 'variables from the start, KEY=value lines' },
      { flags: '--deploy', summary: 'deploy it at once' },
      WAIT,
      TIMEOUT,
      LOG,
    ],
    examples: ['berth env create staging -p shop --branch main --protected --deploy --wait'],
    load: async () => (await import('../commands/environments/envs.ts')).envCreate,
  },
  ...CHANGE_COMMANDS,
  ...PEOPLE_COMMANDS,
  ...MCP_COMMANDS,
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
    path: 'log',
    summary: 'short for tasks log',
    args: '[id]',
    flags: LOG_FLAGS,
    examples: ['berth log -e pr-42 -f'],
    hidden: true,
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
  ...SSH_COMMANDS,
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
    path: 'server list',
    summary: 'list servers',
    examples: ['berth server list'],
    load: async () => (await import('../commands/servers/servers.ts')).serverList,
  },
  {
    path: 'server show',
    summary: 'show a server',
    args: '<name>',
    examples: ['berth server show fra-1'],
    load: async () => (await import('../commands/servers/servers.ts')).serverShow,
  },
  {
    path: 'server add',
    summary: 'register a server and print the command that joins it',
    args: '<name>',
    flags: [
      { flags: '--hostname <host>', summary: 'name or address of the machine', required: true },
      { flags: '--wait', summary: 'wait for its agent (default on a terminal)' },
      { flags: '--no-wait', summary: 'do not wait for its agent' },
    ],
    examples: ['berth server add fra-1 --hostname fra-1.example.com'],
    load: async () => (await import('../commands/servers/servers.ts')).serverAdd,
  },
  {
    path: 'server join-token',
    summary: 'a new join command for a server',
    args: '<name>',
    flags: [
      { flags: '--rejoin', summary: 'let a new agent take the place of the old one' },
      { flags: '--wait', summary: 'wait for its agent (default on a terminal)' },
      { flags: '--no-wait', summary: 'do not wait for its agent' },
    ],
    examples: ['berth server join-token fra-1', 'berth server join-token fra-1 --rejoin --no-wait'],
    load: async () => (await import('../commands/servers/servers.ts')).serverJoinToken,
  },
  {
    path: 'config init',
    summary: 'write a .service.yml that fits this folder; needs no server',
    flags: [
      { ...RECIPE, summary: 'docker or manual, instead of what the folder looks like' },
      { flags: '--force', summary: 'replace the file that is there' },
    ],
    examples: ['berth config init', 'berth config init --recipe manual --force'],
    load: async () => (await import('../commands/config/config-init.ts')).configInit,
  },
  {
    path: 'config validate',
    summary: 'check .service.yml; needs no server',
    args: '[file]',
    flags: [{ ...RECIPE, summary: 'it must have this section' }],
    examples: ['berth config validate', 'berth config validate deploy/.service.yml --json'],
    load: async () => (await import('../commands/config/config.ts')).configValidate,
  },
  {
    path: 'config schema',
    summary: 'print the JSON schema of .service.yml, for editors',
    examples: ['berth config schema > service.v1.json'],
    load: async () => (await import('../commands/config/config.ts')).configSchema,
  },
  {
    path: 'api',
    summary: 'call any endpoint of the API',
    args: '<path>',
    flags: [
      { flags: '-X, --method <method>', summary: 'GET, or POST with -f or --input' },
      { flags: '-f, --field <key=value>', summary: 'a field of the body; typed', repeat: true },
      { flags: '--input <->', summary: 'read the body from stdin' },
      { flags: '--paginate', summary: 'all pages of a list' },
      { flags: '-i, --include', summary: 'show status and headers' },
    ],
    examples: ['berth api me', 'berth api environments/101/tasks -f message="by hand"'],
    load: async () => (await import('../commands/api.ts')).api,
  },
  {
    path: 'completion',
    summary: 'print a completion script',
    args: '<shell>',
    argChoices: ['bash', 'zsh', 'fish', 'powershell'],
    examples: ['berth completion bash > /etc/bash_completion.d/berth'],
    load: async () => (await import('../commands/completion.ts')).completion,
  },
]
