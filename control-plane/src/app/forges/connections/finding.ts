// Finds out which forge a token is for: from what the user named, from the address of a repository, else by asking the
// possible APIs of that host. Turns the refusals of a forge into refusals of the request.
import { AppError, invalidFields, type Provider, Sensitive } from '@berth/shared'
import type { Context } from '../../../context.ts'
import type { Caller } from '../../../domain/core/access.ts'
import { ForgeError } from '../../../forges/clients/forge.ts'
import {
  candidateProviders,
  candidatesOfApi,
  checkApiUrl,
  splitRepositoryUrl,
} from '../../../forges/clients/open.ts'
import { explainRefusal, type ForgeStep } from '../../../forges/clients/setup/permissions.ts'
import type { ForgePlace } from '../../../forges/forges.ts'

interface AskedForge {
  token: string
  provider?: Provider | undefined
  api_url?: string | undefined
  repo_url?: string | undefined
}

export interface FoundForge extends ForgePlace {
  account: string
}

const UNKNOWN =
  'Name the kind of forge (github, gitlab, gitea, forgejo, bitbucket_cloud, bitbucket_server) and the address of its API.'

function candidatesOf(ctx: Context, asked: AskedForge): Omit<ForgePlace, 'token'>[] {
  const { provider, api_url, repo_url } = asked
  const parts = repo_url === undefined ? undefined : splitRepositoryUrl(repo_url)
  const at = api_url ?? parts?.origin ?? (provider && WELL_KNOWN[provider])
  if (at === undefined) {
    throw invalidFields([{ field: 'provider', code: 'provider_unknown', message: UNKNOWN }])
  }
  const guessed = api_url ? candidatesOfApi(api_url) : candidateProviders(repo_url ?? '', null)
  const providers = provider ? [provider] : guessed
  const allowHttp = ctx.config.allowLocalRepositories
  return providers.map((one) => {
    const checked = checkApiUrl(at, one, { allowHttp })
    if (checked.ok) return { provider: one, base: checked.value }
    const message = checked.problem
    throw invalidFields([{ field: 'api_url', code: 'invalid_api_url', message }])
  })
}

const WELL_KNOWN: Partial<Record<Provider, string>> = {
  github: 'https://api.github.com',
  gitlab: 'https://gitlab.com',
  bitbucket_cloud: 'https://api.bitbucket.org',
}

/** Each request makes several calls to an address that the caller named. */
export const countForgeCall = (ctx: Context, caller: Caller): Promise<void> =>
  ctx.quotas.narrow.forgeCalls.take(`user ${caller.userId}`)

/** Asks the forge who the token belongs to, after the caller was found to be allowed to. Uses the network. */
export async function findForge(
  ctx: Context,
  caller: Caller,
  asked: AskedForge,
): Promise<FoundForge> {
  const token = new Sensitive(asked.token)
  const candidates = candidatesOf(ctx, asked)
  await countForgeCall(ctx, caller)
  let last: { error: ForgeError; provider: Provider } | undefined
  for (const candidate of candidates) {
    const place = { ...candidate, token }
    try {
      const { name, provider } = await ctx.outbound.openAccount(place).findAccount()
      return { ...place, provider, account: name }
    } catch (error) {
      if (!(error instanceof ForgeError)) throw error
      // a rejected token is the clearest reason; the API of another kind of forge answers "not found"
      const isClearest = error.trouble === 'token_rejected' || error.trouble === 'not_allowed'
      if (!last || isClearest) last = { error, provider: candidate.provider }
    }
  }
  const isGuess = candidates.length > 1 && last?.error.trouble !== 'token_rejected'
  if (!last || (isGuess && last.error.trouble !== 'not_allowed')) {
    const message = `No forge of a known kind answered there. ${UNKNOWN}`
    throw invalidFields([{ field: 'provider', code: 'provider_unknown', message }])
  }
  throw refusalOf(last.error, last.provider, 'list', 'token')
}

/** What a request answers when the forge refused a step. */
export function refusalOf(
  error: ForgeError,
  provider: Provider,
  step: ForgeStep,
  field: 'token' | 'connection_id',
): AppError {
  if (error.trouble === 'token_rejected') {
    // 401: the token itself; 403: it is known, but not allowed to do this
    const refused = error.status === 401 ? error : explainRefusal(error, provider, step)
    const advice = error.status === 401 ? ' It is wrong, expired or revoked. Make a new one.' : ''
    const message = refused.message + advice
    return invalidFields([{ field, code: 'host_token_rejected', message }])
  }
  if (error.trouble === 'not_found') {
    const message = `${error.message} Check the address of the API.`
    return invalidFields([{ field: 'api_url', code: 'invalid_api_url', message }])
  }
  return new AppError('forge_unreachable', error.message)
}
