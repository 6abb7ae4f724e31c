// Looks at a repository through a connection, before a project is made for it: what its service file says, or what
// could be written for it. Uses the network; the file is read by the same code as a deployment reads it.
import { AppError } from '@berth/shared'
import { FILE_NAME, type Problem, readServiceFile } from '@berth/shared/service-file'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { type FileSummary, GUESSES, summarizeFile } from '../../../domain/forges/file-summary.ts'
import { type ForgeClient, ForgeError } from '../../../forges/clients/forge.ts'
import { loadForgeConnection } from '../../core/access.ts'
import { countForgeCall, refusalOf } from './finding.ts'
import { placeOf } from './opening.ts'

export interface Preview {
  branch: string
  /** Null: the branch has no such file. */
  file: (FileSummary & { problems: Problem[] }) | null
  /** What the client would write, by a file that is there; null: nothing known was found. */
  guess: { file: string; recipe: 'docker' | 'manual'; words: string } | null
}

export async function previewRepository(
  ctx: Context,
  caller: Caller,
  connectionId: number,
  asked: { repository: string; branch: string },
): Promise<Preview> {
  const connection = await loadForgeConnection(ctx.db, caller, connectionId, 'project:write')
  const place = await placeOf(ctx, connection)
  if (!place) {
    throw new AppError('forge_unreachable', 'The token cannot be read any more. Give it again.')
  }
  await countForgeCall(ctx, caller)
  const { branch } = asked
  try {
    const client = ctx.outbound.openPath(place, asked.repository)
    const text = await client.readFile(FILE_NAME, branch)
    if (text === undefined) return { branch, file: null, guess: await guess(client, branch) }
    const { file, problems } = readServiceFile(text)
    return { branch, file: { ...summarizeFile(file), problems }, guess: null }
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error
    throw refusalOf(error, connection.provider, 'list', 'connection_id')
  }
}

async function guess(client: ForgeClient, branch: string): Promise<Preview['guess']> {
  for (const one of GUESSES) {
    if ((await client.readFile(one.file, branch)) !== undefined) return one
  }
  return null
}
