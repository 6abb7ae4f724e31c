// The output of a finished action: what the command wrote, without the platform's own lines. It is data (stdout); with
// --json, stdout belongs to the task. A failure to read it does not change how the task ended.
import type { Api } from '../client/api.ts'
import { LineAssembly, type NumberedLine, readRecords } from '../client/log-stream.ts'
import type { Context } from '../context.ts'
import { CliError, EXIT } from '../terminal/exit.ts'
import { cleanLogLine } from '../terminal/text.ts'

async function* outputLines(api: Api, context: Context, id: number): AsyncGenerator<NumberedLine> {
  const assembly = new LineAssembly()
  // the last lines may arrive after the final status, so follow to the end
  const request = { taskId: id, fromLine: 1, phase: undefined, follow: true }
  for await (const record of readRecords(api, context.io, request)) {
    if (record.line?.s !== 'system') yield* assembly.add(record)
  }
  yield* assembly.end()
}

export async function printOutput(context: Context, api: Api, taskId: number): Promise<void> {
  const { io, screen } = context
  const sink = screen.json ? io.stderr : io.stdout
  const { colour } = screen.json ? screen.err : screen.out
  try {
    for await (const line of outputLines(api, context, taskId)) {
      if (sink.closed) return
      await sink.write(`${cleanLogLine(line.text, colour)}\n`)
    }
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.interrupted) throw error
    const reason = (error as Error).message
    await screen.warn(`its output could not be read: ${reason} (berth tasks log ${taskId})`)
  }
}
