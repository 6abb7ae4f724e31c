// Commands about .service.yml and the API itself.
import { type CommandSpec, RECIPE } from './spec.ts'

export const CONFIG: readonly CommandSpec[] = [
  {
    path: 'config init',
    summary: 'Write a .service.yml for this folder; works offline',
    flags: [
      { ...RECIPE, summary: 'docker or manual (default: detected from the folder)' },
      {
        flags: '--from-compose [file]',
        summary: 'Convert a compose file (default: the one in this folder)',
      },
      { flags: '--force', summary: 'Replace an existing file' },
    ],
    examples: [
      'berth config init',
      'berth config init --from-compose',
      'berth config init --recipe manual --force',
    ],
    load: async () => (await import('../commands/config/config-init.ts')).configInit,
  },
  {
    path: 'config validate',
    summary: 'Check .service.yml; works offline',
    args: '[file]',
    flags: [{ ...RECIPE, summary: 'Require the section of this recipe' }],
    examples: ['berth config validate', 'berth config validate deploy/.service.yml --json'],
    load: async () => (await import('../commands/config/config.ts')).configValidate,
  },
  {
    path: 'config schema',
    summary: 'Print the JSON schema of .service.yml, for editors',
    examples: ['berth config schema > service.v1.json'],
    load: async () => (await import('../commands/config/config.ts')).configSchema,
  },
  {
    path: 'api',
    summary: 'Call any endpoint of the API',
    args: '<path>',
    flags: [
      {
        flags: '-X, --method <method>',
        summary: 'HTTP method (default GET, or POST with -f or --input)',
      },
      {
        flags: '-f, --field <key=value>',
        summary: 'Field of the JSON body; numbers, true, false and null are converted',
        repeat: true,
      },
      { flags: '--input <->', summary: 'Read the body from stdin' },
      { flags: '--paginate', summary: 'Get all pages of a list' },
      { flags: '-i, --include', summary: 'Print status and headers' },
    ],
    examples: ['berth api me', 'berth api environments/101/tasks -f message="by hand"'],
    load: async () => (await import('../commands/api.ts')).api,
  },
]
