// Which repository addresses and branches a project may have. The agent shares the rule and checks it again before a
// process starts; here it gets the name of the field and a code.
import { checkRef, checkRepositoryUrl, type FieldProblem } from '@berth/shared'

const WITH_CREDENTIALS = /^https?:\/\/[^/]*@/i

/** `allowLocal`: file:// and http:// to loopback, for tests and the local example. Undefined if it is valid. */
export function repositoryProblem(
  url: string,
  { allowLocal }: { allowLocal: boolean },
): FieldProblem | undefined {
  const rules = { allowFile: allowLocal, allowLoopbackHttp: allowLocal }
  const checked = checkRepositoryUrl(url, rules)
  if (checked.ok) return undefined
  const code = WITH_CREDENTIALS.test(url) ? 'credentials_in_url' : 'invalid_repo_url'
  return { field: 'repo_url', code, message: checked.problem }
}

export function branchProblem(branch: string, field: string): FieldProblem | undefined {
  const checked = checkRef(branch)
  if (!checked.ok) return { field, code: 'invalid_branch', message: checked.problem }
  if (!branch.startsWith('refs/')) return undefined
  return {
    field,
    code: 'invalid_branch',
    message: 'Give the short name of the branch, without refs/heads/.',
  }
}
