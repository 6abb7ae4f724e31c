// What a tool's body receives, and how a tool is described. The bodies do not know the protocol.
import type { z } from 'zod'
import type { Api } from '../client/api.ts'
import type { Purpose, Target } from '../client/resolve.ts'
import type { Io } from '../terminal/io.ts'
import type { Answer } from './answer.ts'
import type { Undertaking } from './refusal.ts'

export interface Progress {
  progress: number
  total?: number
  message: string
}

export interface Call {
  api: Api
  io: Io
  startedAt: number
  find(purpose: Purpose): Promise<Target>
  /** Sent to the MCP host if it asked for progress. */
  report(progress: Progress): Promise<void>
}

export interface Hints {
  readOnlyHint: boolean
  destructiveHint: boolean
  idempotentHint: boolean
  openWorldHint: boolean
}

export interface Tool<Shape extends z.ZodRawShape = z.ZodRawShape> {
  name: string
  title: string
  description: string
  undertaking: Undertaking
  hints: Hints
  /** In addition to project and environment. */
  input: Shape
  output: z.ZodType
  run(input: z.infer<z.ZodObject<Shape>>, call: Call): Promise<Answer>
}
