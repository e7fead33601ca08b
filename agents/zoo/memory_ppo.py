"""Hyperparameters of MemoryPPO, as rl_zoo3's --conf-file takes them."""

from agents.zoo.hyperparameters import from_recipes

hyperparams = from_recipes() | {
    "default": dict(policy="MlpPolicy", n_timesteps=1_000_000, n_envs=8),
    "CartPoleNoVel-v1": dict(
        policy="MlpPolicy",
        n_timesteps=50_000,
        n_envs=8,
        normalize=True,
        n_steps=128,
        batch_size=256,
        sequence_length=64,
        n_epochs=10,
        learning_rate="lin_7e-4",
        gae_lambda=0.98,
        max_grad_norm=1.0,
        policy_kwargs=dict(core="gru", share_memory=False, net_arch=dict(pi=[], vf=[64]), ortho_init=False),
    ),
}
