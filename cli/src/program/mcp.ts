// Commands for programs that speak MCP.
import type { CommandSpec, FlagSpec } from './spec.ts'

const ALLOW_WRITE: FlagSpec = {
  flags: '--allow-write',
  summary: 'Also offer deploy_environment, set_variables and unset_variables',
}

export const MCP: readonly CommandSpec[] = [
  {
    path: 'mcp serve',
    summary: 'Run the MCP server on stdin and stdout (default); -p and -e limit it',
    flags: [ALLOW_WRITE],
    examples: ['berth mcp', 'berth mcp --allow-write -p shop -e pr-42'],
    load: async () => (await import('../mcp/serve.ts')).serve,
  },
  {
    path: 'mcp install',
    summary: 'Print the configuration of an MCP client; --write saves it',
    flags: [
      {
        flags: '--client <client>',
        summary: 'claude-code, cursor or vscode',
        choices: ['claude-code', 'cursor', 'vscode'],
        required: true,
      },
      ALLOW_WRITE,
      { flags: '--write', summary: "Write it to the client's file in this repository" },
    ],
    examples: [
      'berth mcp install --client claude-code',
      'berth mcp install --client cursor -p shop --allow-write --write',
    ],
    load: async () => (await import('../mcp/install.ts')).install,
  },
]
