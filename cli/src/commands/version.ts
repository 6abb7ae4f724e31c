// berth --version: the client's version, and the server's if the user is logged in. The server gets only a moment,
// because the version must also work offline.
import { existsSync } from 'node:fs'
import { VERSION } from '@berth/shared/version'
import { credentialsPath } from '../client/config-folder.ts'
import type { Context } from '../context.ts'
import { CLIENT } from '../limits/client.ts'
import { EXIT, type ExitCode } from '../terminal/exit.ts'
import { cleanText } from '../terminal/text.ts'

async function serverVersion(context: Context): Promise<string> {
  const { io, globals } = context
  const isNamed = Boolean(globals.url || io.env.BERTH_URL)
  if (!isNamed && !existsSync(credentialsPath(io.env))) return '' // the common case must be fast
  const { readCredentials } = await import('../client/credentials.ts')
  const { chooseBaseUrl, trustAuthority } = await import('../client/login.ts')
  const baseUrl = chooseBaseUrl(globals, io.env, await readCredentials(credentialsPath(io.env)))
  if (baseUrl === undefined) return ''
  try {
    const { createApi } = await import('../client/api.ts')
    const { Health } = await import('@berth/shared/api')
    await trustAuthority(globals, io.env)
    const api = createApi({ baseUrl, token: null, organizationId: null, io, debug: false })
    const options = { retries: 0, timeoutMs: CLIENT.versionMs }
    const { value } = await api.get('/api/health', Health, options)
    return `server ${value.version} at ${baseUrl}`
  } catch {
    return `server at ${baseUrl} does not answer`
  }
}

export async function showVersion(context: Context): Promise<ExitCode> {
  const { screen } = context
  if (screen.json) await screen.printJson({ version: VERSION })
  else await screen.print(`berth ${VERSION}`)
  const server = await serverVersion(context).catch(() => '')
  if (server !== '') await screen.note(cleanText(server))
  return EXIT.done
}
