// `berth-server verify-audit`: works while the control plane runs.
import { readConfig } from '../config.ts'
import { checkAudit } from '../server.ts'
import type { CommandContext } from './command.ts'

export async function verifyAudit({ env, print }: CommandContext): Promise<number> {
  const { rows, seq, hash, unchained, problems } = await checkAudit(readConfig(env))
  for (const problem of problems) print(problem)
  const old = unchained > 0 ? ` ${unchained} older rows are outside the chain.` : ''
  const verdict = problems.length === 0 ? 'the audit log is whole' : 'THE AUDIT LOG WAS CHANGED'
  print(`${rows} rows, head ${seq} ${hash}: ${verdict}.${old}`)
  return problems.length === 0 ? 0 : 1
}
