// Commands about environments and their variables.
import {
  CONFIRM,
  type CommandSpec,
  type FlagSpec,
  LOG,
  RECIPE,
  TIMEOUT,
  toggle,
  WAIT,
} from './spec.ts'

const TO: FlagSpec = {
  flags: '--to <place>',
  summary:
    "server (its disk) or bucket (of the organization); default: as the environment's settings say",
  choices: ['server', 'bucket'],
}

const FOR: FlagSpec = {
  flags: '--for <level>',
  summary: 'All environments of the project, all previews or all manual ones, instead of one',
  choices: ['project', 'previews', 'manual'],
}

const APPLY: readonly FlagSpec[] = [
  { flags: '--deploy', summary: 'Deploy the environments that get another value' },
  WAIT,
  TIMEOUT,
  LOG,
]

export const ENVIRONMENTS: readonly CommandSpec[] = [
  {
    path: 'envs list',
    summary: 'List the environments of a project',
    examples: ['berth envs -p shop'],
    load: async () => (await import('../commands/environments/envs.ts')).envsList,
  },
  {
    path: 'envs show',
    summary: 'Show an environment',
    examples: ['berth envs show -e pr-42'],
    load: async () => (await import('../commands/environments/envs.ts')).envsShow,
  },
  {
    path: 'envs create',
    summary: 'Create an environment',
    args: '<name>',
    flags: [
      { flags: '--branch <branch>', summary: 'Branch to deploy', required: true },
      { flags: '--server <server>', summary: "Server (default: the project's first)" },
      RECIPE,
      { flags: '--protected', summary: 'Only its owner may deploy or change it' },
      { flags: '--sticky', summary: 'List it first' },
      { flags: '--auth <user>', summary: 'Require this user name and a password from visitors' },
      { flags: '--auth-stdin', summary: 'Read that password from stdin' },
      {
        flags: '--vars-from <file>',
        summary: 'File with initial variables, one KEY=value per line',
      },
      { flags: '--deploy', summary: 'Deploy it immediately' },
      WAIT,
      TIMEOUT,
      LOG,
    ],
    examples: ['berth env create staging -p shop --branch main --protected --deploy --wait'],
    load: async () => (await import('../commands/environments/envs.ts')).envCreate,
  },
  {
    path: 'vars list',
    summary: 'List the keys and the level of each; values are never shown',
    flags: [FOR],
    examples: ['berth vars list -e pr-42', 'berth vars list -p shop --for previews'],
    load: async () => (await import('../commands/environments/vars.ts')).varsList,
  },
  {
    path: 'vars set',
    summary: 'Set variables, all or none',
    args: '[pairs...]',
    flags: [
      { flags: '--from-file <file>', summary: 'File with one KEY=value per line; - reads stdin' },
      { flags: '--stdin', summary: 'Read the value of the only KEY from stdin' },
      FOR,
      ...toggle('forks', 'With --for: environments of forks get these keys too'),
      ...APPLY,
      { flags: '--dry-run', summary: 'Print the keys, but change nothing' },
    ],
    examples: [
      'berth vars set -e pr-42 FEATURE_X=on',
      'op read op://shop/app-key | berth vars set -e pr-42 APP_KEY=-',
      'berth vars set -e pr-42 --from-file .env.preview --deploy --wait',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference in a value
      "berth vars set -p shop --for previews 'API_URL=${service.api.url}'",
    ],
    load: async () => (await import('../commands/environments/vars.ts')).varsSet,
  },
  {
    path: 'vars generate',
    summary: 'Set variables to random values that are made on the server and never shown',
    args: '<keys...>',
    flags: [
      { flags: '--length <n>', summary: 'Letters and digits of each value (default 32)' },
      { flags: '--replace', summary: 'Replace the value of a key that is set already' },
      FOR,
      ...APPLY,
    ],
    examples: [
      'berth vars generate -e staging APP_KEY',
      'berth vars generate APP_KEY --for previews',
    ],
    load: async () => (await import('../commands/environments/vars-more.ts')).varsGenerate,
  },
  {
    path: 'vars unset',
    summary: 'Remove variables',
    args: '<keys...>',
    flags: [FOR, ...APPLY],
    examples: ['berth vars unset -e pr-42 OLD_KEY'],
    load: async () => (await import('../commands/environments/vars.ts')).varsUnset,
  },
  {
    path: 'vars forks',
    summary: 'Give keys of a level to environments of forks too, or take them away',
    args: '<keys...>',
    flags: [FOR, { flags: '--off', summary: 'Forks no longer get them' }, ...APPLY],
    examples: [
      'berth vars forks PUBLIC_API_URL --for previews',
      'berth vars forks PUBLIC_API_URL --for previews --off',
    ],
    load: async () => (await import('../commands/environments/vars-more.ts')).varsForks,
  },
  {
    path: 'vars import',
    summary: 'Set the variables of a file, without keys that have no value',
    args: '[file]',
    flags: [FOR, ...APPLY, { flags: '--dry-run', summary: 'Print the keys, but change nothing' }],
    examples: ['berth vars import .env -e staging', 'berth vars import - --for manual < .env'],
    load: async () => (await import('../commands/environments/vars.ts')).varsImport,
  },
  {
    path: 'vars export',
    summary: 'Print the keys as a template for .env, with the level of each and no values',
    flags: [FOR],
    examples: ['berth vars export -e staging > .env.example'],
    load: async () => (await import('../commands/environments/vars-more.ts')).varsExport,
  },
  {
    path: 'vars history',
    summary: 'List who changed which keys, at which level and when',
    args: '[key]',
    flags: [FOR, { flags: '--limit <n>', summary: 'Number of changes (default 30)' }],
    examples: ['berth vars history -e staging', 'berth vars history APP_KEY --for project'],
    load: async () => (await import('../commands/environments/vars-more.ts')).varsHistory,
  },
  {
    path: 'envs edit',
    summary: 'Change the settings of an environment',
    flags: [
      { flags: '--title <title>', summary: 'Title shown in lists' },
      { flags: '--server <server>', summary: 'Server; it moves with the next deployment' },
      { flags: '--domain <domain>', summary: 'Hostname under which it is reachable' },
      { flags: '--branch <branch>', summary: 'Branch to deploy' },
      {
        flags: '--recipe <recipe>',
        summary: 'docker, manual, or inherit from the project',
        choices: ['docker', 'manual', 'inherit'],
      },
      ...toggle('protected', 'Only its owner may deploy or change it'),
      ...toggle('sticky', 'List it first'),
      ...toggle('auto-deploy', 'Deploy pushes'),
    ],
    examples: ['berth env edit -e staging --title "Staging" --sticky'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envEdit,
  },
  {
    path: 'envs set',
    summary: "Change settings by the API's field names",
    args: '<settings...>',
    examples: ['berth env set -e staging title=Staging sticky=true server=fra-2'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envSet,
  },
  {
    path: 'envs delete',
    summary: 'Delete an environment with its data',
    flags: [
      CONFIRM,
      { flags: '--force', summary: "Skip the repository's destroy commands" },
      { flags: '--forget', summary: 'For a lost server: delete the record only' },
    ],
    examples: ['berth env delete -e pr-42 --yes', 'berth env delete -e staging --confirm staging'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envDelete,
  },
  {
    path: 'envs reset',
    summary: 'Delete the data of an environment, then deploy it again',
    flags: [CONFIRM],
    examples: ['berth env reset -e pr-42 --confirm pr-42'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envReset,
  },
  {
    path: 'envs watch',
    summary: 'Get a mail when an environment is degraded, and when it has recovered',
    flags: [{ flags: '--off', summary: 'Get no more mails about it' }],
    examples: ['berth env watch -e staging', 'berth env watch -e staging --off'],
    load: async () => (await import('../commands/environments/env-changes.ts')).envWatch,
  },
  {
    path: 'open',
    summary: 'Open an environment in the browser',
    flags: [{ flags: '--dashboard', summary: 'Open its page in the dashboard instead' }],
    examples: ['berth open -e pr-42', 'berth open -e pr-42 --dashboard'],
    load: async () => (await import('../commands/environments/open.ts')).openPage,
  },
  {
    path: 'backup create',
    summary: 'Back up the data of an environment: its volumes, or its shared folder',
    flags: [
      TO,
      { flags: '--live', summary: 'Do not pause services; their files may not fit together' },
      WAIT,
      TIMEOUT,
      { flags: '-m, --message <text>', summary: 'Reason, shown in the history' },
      LOG,
    ],
    examples: ['berth backup create -p shop -e staging --wait'],
    load: async () => (await import('../commands/environments/backups.ts')).backupCreate,
  },
  {
    path: 'backup list',
    summary: 'List the backups of an environment',
    flags: [{ flags: '--all', summary: 'Of the whole project, also of removed environments' }],
    examples: ['berth backup list -p shop -e staging', 'berth backup list -p shop --all'],
    load: async () => (await import('../commands/environments/backups.ts')).backupList,
  },
  {
    path: 'backup restore',
    summary: 'Replace the data of an environment by that of a backup; -e names another environment',
    args: '<id>',
    flags: [
      CONFIRM,
      WAIT,
      TIMEOUT,
      { flags: '-m, --message <text>', summary: 'Reason, shown in the history' },
      LOG,
    ],
    examples: [
      'berth backup restore 12 --wait',
      'berth backup restore 12 -p shop -e staging --confirm staging --wait',
    ],
    load: async () => (await import('../commands/environments/backups.ts')).backupRestore,
  },
  {
    path: 'backup settings',
    summary: 'Show or change when an environment is backed up and how long backups stay',
    flags: [
      { flags: '--schedule <cron>', summary: 'Minute, hour, day, month, weekday; off ends it' },
      { flags: '--timezone <zone>', summary: 'Time zone of the schedule (default UTC)' },
      { flags: '--keep <n>', summary: 'Number of backups to keep' },
      { flags: '--keep-days <n>', summary: 'Greatest age in days; any for no limit' },
      TO,
    ],
    examples: ["berth backup settings -e staging --schedule '0 3 * * *' --keep 14 --keep-days 30"],
    load: async () => (await import('../commands/environments/backup-settings.ts')).backupSettings,
  },
  {
    path: 'backup history',
    summary: 'List what became of scheduled backups',
    examples: ['berth backup history -p shop -e staging'],
    load: async () => (await import('../commands/environments/backup-settings.ts')).backupHistory,
  },
  {
    path: 'backup storage',
    summary: 'Show the bucket of the organization for backups; the secret key is never shown',
    examples: ['berth backup storage'],
    load: async () => (await import('../commands/environments/backup-settings.ts')).backupStorage,
  },
  {
    path: 'backup set-storage',
    summary: 'Set or replace the bucket of the organization for backups',
    flags: [
      {
        flags: '--endpoint <url>',
        summary: 'Address of the S3-compatible storage',
        required: true,
      },
      { flags: '--bucket <name>', summary: 'Bucket', required: true },
      { flags: '--prefix <folder>', summary: 'Folder in the bucket' },
      { flags: '--region <region>', summary: 'Region (default us-east-1)' },
      { flags: '--access-key-id <id>', summary: 'Access key', required: true },
      { flags: '--secret-stdin', summary: 'Read the secret key from stdin' },
    ],
    examples: [
      'op read op://shop/s3 | berth backup set-storage --endpoint https://s3.example.com --bucket backups --access-key-id AKIA1 --secret-stdin',
    ],
    load: async () =>
      (await import('../commands/environments/backup-settings.ts')).backupSetStorage,
  },
  {
    path: 'backup remove-storage',
    summary: 'Remove the bucket of the organization, once no backup is in it',
    examples: ['berth backup remove-storage --yes'],
    load: async () =>
      (await import('../commands/environments/backup-settings.ts')).backupRemoveStorage,
  },
]
