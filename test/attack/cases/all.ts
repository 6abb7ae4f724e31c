// Every attack, in order of execution: those that may disturb others come last.
import type { Case } from '../case.ts'
import { AGENTS } from './agents.ts'
import { FILES } from './files.ts'
import { GIT } from './git.ts'
import { LIMITS } from './limits.ts'
import { NEIGHBOURS } from './neighbours.ts'
import { PORTS } from './ports.ts'
import { SOCKETS } from './sockets.ts'
import { SSH } from './ssh.ts'
import { TENANTS } from './tenants.ts'
import { WEB } from './web.ts'
import { WEBHOOKS } from './webhooks.ts'

export const CASES: Case[] = [
  ...SOCKETS,
  ...GIT,
  ...PORTS,
  ...NEIGHBOURS,
  ...TENANTS,
  ...WEB,
  ...AGENTS,
  ...WEBHOOKS,
  ...SSH,
  ...FILES,
  ...LIMITS,
]
