// Ends an attempt that never began: one sentence says why, and the output of its process becomes the attempt's log. The
// output is kept only while the values to mask it are in memory; after a restart of the daemon, only the sentence
// remains.
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import { availableParallelism, freemem, loadavg, totalmem } from 'node:os'
import { NOT_STARTED } from '@berth/shared'
import { AttemptState, FailureCode, LogSource, type TaskSecrets } from '@berth/shared/wire'
import { attemptPaths } from '../journal/attempt-files.ts'
import { Masker } from '../machine/masking/mask.ts'
import { SpoolWriter } from '../spool/writer.ts'

interface StartFacts {
  /** What failed; undefined: it was not observed. */
  trouble: string | undefined
  /** The most informative line of its output. */
  said: string
  load: number
  processors: number
  freeBytes: number
  totalBytes: number
}

const inMiB = (bytes: number): string => `${Math.round(bytes / 1_048_576)} MiB`

/** Pure. What failed, the output, how busy the server is, and what to do. */
function describeNotStarted(f: StartFacts): string {
  const why = f.trouble ?? 'the agent was restarted before it began'
  const said = f.said === '' ? '' : ` It said: ${f.said}`
  const load = `load ${f.load.toFixed(1)} on ${f.processors} processors`
  const memory = `${inMiB(f.freeBytes)} of ${inMiB(f.totalBytes)} memory free`
  return `The server could not start it: ${why}.${said} Nothing was changed (${load}, ${memory}). Deploy again.`
}

/** Describes the unexpected end of a process. */
export function describeExit(code: number | null, signal: string | null): string {
  if (signal === 'SIGKILL') return 'its process was killed (SIGKILL), most often for its memory'
  if (signal !== null) return `its process was ended by ${signal}`
  return `its process ended with exit code ${code ?? 'unknown'} before it began`
}

/** Describes a system error (ENOENT, EACCES, ENOMEM, EAGAIN …) with its subject. */
export function describeSpawn(program: string, error: Error): string {
  const { code } = error as NodeJS.ErrnoException
  return `${program} could not be started (${code ?? error.message})`
}

/** Its output, truncated and masked; empty without the values to mask. */
function readOutput(file: string, secrets: TaskSecrets | undefined): string {
  if (!secrets || !existsSync(file)) return ''
  const fd = openSync(file, 'r')
  try {
    const { size } = fstatSync(fd)
    const bytes = Buffer.alloc(Math.min(size, NOT_STARTED.outputBytes))
    const read = readSync(fd, bytes, 0, bytes.length, size - bytes.length)
    const values = [
      ...secrets.variables.map(({ value }) => value),
      ...secrets.registries.map(({ password }) => password),
      Buffer.from(secrets.deployKey).toString('utf8'),
    ]
    const masker = new Masker(values.filter((value) => value.length > 0))
    return masker.maskText(bytes.subarray(0, read).toString('utf8'))
  } finally {
    closeSync(fd)
  }
}

/** The line of an error if there is one, because Node prints its version last. */
function messageLine(lines: readonly string[]): string {
  const error = lines.find((line) => /^(?:\w*Error\b|FATAL ERROR|node: )/.test(line.trim()))
  const last = lines.findLast((line) => line.trim() !== '' && !/^Node\.js v/.test(line))
  return (error ?? last ?? '').trim().slice(0, NOT_STARTED.saidCharacters)
}

/** Ends such an attempt; its output is in the spool when this returns. */
export function endNotStarted(
  dir: string,
  timeMs: number,
  { trouble, secrets }: { trouble: string | undefined; secrets: TaskSecrets | undefined },
) {
  const paths = attemptPaths(dir)
  const lines = readOutput(paths.runnerLog, secrets)
    .split('\n')
    .filter((line) => line.trim() !== '')
    .slice(-NOT_STARTED.lines)
  const message = describeNotStarted({
    trouble,
    said: messageLine(lines),
    load: loadavg()[0] ?? 0,
    processors: availableParallelism(),
    freeBytes: freemem(),
    totalBytes: totalmem(),
  })
  const end = {
    state: AttemptState.REFUSED,
    code: FailureCode.NOT_STARTED,
    message,
    platformCheck: true,
  }
  if (lines.length === 0 || existsSync(paths.log)) return end
  const spool = SpoolWriter.create(paths.log)
  for (const line of lines) {
    const data = Buffer.from(`${line.slice(0, NOT_STARTED.lineCharacters)}\n`)
    spool.append(timeMs * 1_000, LogSource.STDERR, 0, data)
  }
  const { finalSeq, bytesTotal, bytesDropped, sha256 } = spool.finish()
  return {
    ...end,
    finalLogSeq: BigInt(finalSeq),
    logBytesTotal: BigInt(bytesTotal),
    logBytesDropped: BigInt(bytesDropped),
    logSha256: sha256,
  }
}
