// The MCP server: at most five tools, in the specification's order; those that change something are registered only if
// allowed, so that otherwise they can be neither seen nor called. One factory serves both protocol eras.
import { VERSION } from '@berth/shared/version'
import { McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { Target } from '../client/resolve.ts'
import type { Io } from '../terminal/io.ts'
import { toResult, UNTRUSTED } from './answer.ts'
import type { Progress, Tool } from './call.ts'
import { deployEnvironment } from './deploy.ts'
import { getDeployDiagnostics } from './diagnostics.ts'
import type { Gateway } from './gateway.ts'
import { explain } from './refusal.ts'
import { ENVIRONMENT, PROJECT, type Where } from './schemas.ts'
import type { Targets } from './targets.ts'
import { Turns } from './turns.ts'
import { listVariables, setVariables, unsetVariables } from './variables.ts'

const READ = [getDeployDiagnostics, listVariables] as const
const WRITE = [deployEnvironment, setVariables, unsetVariables] as const

/** Each body receives input that its own schema accepted. */
const asTool = (tool: unknown): Tool => tool as Tool

export const toolsFor = (allowWrite: boolean): Tool[] =>
  [...READ, ...(allowWrite ? WRITE : [])].map(asTool)

interface Surroundings {
  gateway: Gateway
  targets: Targets
  allowWrite: boolean
  io: Io
}

/** Refuses unknown inputs; a fixed project or environment is not an input. */
export function inputOf(tool: Tool, { fixed }: Pick<Targets, 'fixed'>) {
  return z.strictObject({
    ...(fixed.project ? {} : { project: PROJECT }),
    ...(fixed.environment ? {} : { environment: ENVIRONMENT }),
    ...tool.input,
  })
}

export function instructionsOf(baseUrl: string | undefined, fixedTo: string): string {
  const where = baseUrl ?? 'a Berth server (not logged in yet: berth login)'
  const fixed = fixedTo === '' ? '' : ` Every call is about ${fixedTo}.`
  return (
    `Deployments of the projects on ${where}. Start with get_deploy_diagnostics when a deployment failed. ` +
    `Variable values can never be read.${fixed} ${UNTRUSTED}`
  )
}

async function report({ mcpReq }: ServerContext, progress: Progress): Promise<void> {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return
  // when the MCP host disconnects, the call's signal ends it, not this
  await mcpReq
    .notify({ method: 'notifications/progress', params: { progressToken, ...progress } })
    .catch(() => {})
}

async function debug(io: Io, error: unknown): Promise<void> {
  if (io.env.BERTH_DEBUG !== '1' || !(error instanceof Error)) return
  await io.stderr.write(`${error.stack ?? error.message}\n`)
}

async function perform(
  tool: Tool,
  input: Where,
  context: ServerContext,
  { gateway, targets, io }: Surroundings,
) {
  const { undertaking } = tool
  let target: Target | undefined
  try {
    const startedAt = io.now()
    const { project, environment, ...rest } = input
    const where = {
      ...(project === undefined ? {} : { project }),
      ...(environment === undefined ? {} : { environment }),
    }
    const opened = await gateway.open(context.mcpReq.signal)
    return toResult(
      await tool.run(rest, {
        ...opened,
        startedAt,
        report: (progress) => report(context, progress),
        async find(purpose) {
          target = await targets.find(opened.api, where, purpose)
          return target
        },
      }),
    )
  } catch (error) {
    await debug(io, error)
    return toResult(explain(error, { undertaking, target }))
  }
}

export function createServer(surroundings: Surroundings): McpServer {
  const { gateway, targets, allowWrite } = surroundings
  const server = new McpServer(
    { name: 'berth', title: 'Berth', version: VERSION },
    {
      instructions: instructionsOf(gateway.baseUrl, targets.describe()),
      capabilities: { tools: { listChanged: false } },
    },
  )
  const turns = new Turns()
  for (const tool of toolsFor(allowWrite)) {
    const { name, title, description, output, hints } = tool
    server.registerTool(
      name,
      {
        title,
        description,
        inputSchema: inputOf(tool, targets),
        outputSchema: output,
        annotations: { title, ...hints },
      },
      async (input, context) => {
        let end: () => void
        try {
          end = await turns.take(context.mcpReq.signal)
        } catch (error) {
          return toResult(explain(error, { undertaking: 'read' })) // it never began
        }
        try {
          return await perform(tool, input as Where, context, surroundings)
        } finally {
          end()
        }
      },
    )
  }
  return server
}
