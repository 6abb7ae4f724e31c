// The command table with every command. The code of a command is loaded when it is called, so that the start is fast.
import { ACCESS } from './access.ts'
import { CONFIG } from './config.ts'
import { DEPLOYMENTS } from './deployments.ts'
import { ENVIRONMENTS } from './environments.ts'
import { MCP } from './mcp.ts'
import { MEMBERS } from './members.ts'
import { NOTICES } from './notices.ts'
import { PEOPLE } from './people.ts'
import { PROJECTS } from './projects.ts'
import { SERVERS } from './servers.ts'
import type { CommandSpec } from './spec.ts'

export const COMMANDS: readonly CommandSpec[] = [
  ...PEOPLE,
  ...MEMBERS,
  ...PROJECTS,
  ...ENVIRONMENTS,
  ...DEPLOYMENTS,
  ...SERVERS,
  ...ACCESS,
  ...NOTICES,
  ...CONFIG,
  ...MCP,
  {
    path: 'completion',
    summary: 'Print a completion script',
    args: '<shell>',
    argChoices: ['bash', 'zsh', 'fish', 'powershell'],
    examples: ['berth completion bash > /etc/bash_completion.d/berth'],
    load: async () => (await import('./completion.ts')).completionOf(COMMANDS),
  },
]
