// The address at which clouds hand out the machine's own credentials: no container may reach it. The rule stands in the
// chain that the engine keeps for others and never empties; where the engine leaves the firewall alone there is none.
import { locateProgram, runProgram } from '../programs.ts'

const CHAIN = 'DOCKER-USER'
const RULE = ['-d', '169.254.169.254/32', '-j', 'DROP']

/** no_chain: the engine does not manage the firewall here, so its owner must drop that address. */
export type MetadataRule = 'there' | 'made' | 'no_chain'

export async function dropMetadata(program = locateProgram('iptables')): Promise<MetadataRule> {
  if (!program) return 'no_chain'
  const call = async (...args: string[]): Promise<boolean> =>
    (await runProgram([program, '-w', '5', ...args])).code === 0
  if (await call('-C', CHAIN, ...RULE)) return 'there'
  return (await call('-I', CHAIN, ...RULE)) ? 'made' : 'no_chain'
}
