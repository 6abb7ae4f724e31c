// Signing in.
import { useNavigate } from '@tanstack/react-router'
import { queryClient } from '../api.ts'
import { SignInForm } from '../shell/sign-in-form.tsx'

export function Login() {
  const navigate = useNavigate()
  return (
    <main>
      <h1>Sign in</h1>
      <SignInForm
        onDone={() => {
          queryClient.clear()
          void navigate({ to: '/' })
        }}
      />
    </main>
  )
}
