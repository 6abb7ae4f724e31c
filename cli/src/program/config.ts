// Commands about .service.yml and the API itself.
import { type CommandSpec, RECIPE } from './spec.ts'

export const CONFIG: readonly CommandSpec[] = [
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
]
