# Training steps of PyTorch, as one writes them for speed: fused attention and
# optimizer, gradients set to None, no compiler.
torch = need("torch")
nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, layers, width, heads, hidden, vocab, seq):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(seq, width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1)


class Basic(nn.Module):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.conv2, self.bn2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.down = None
        if stride != 1:
            self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.down is None else self.down(x)
        return F.relu(y, inplace=True)


def trained(model, optimizer, x, labels):
    def step():
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def mlp(batch, inputs, width, layers, classes):
    torch.manual_seed(0)
    parts = []
    for i in range(layers):
        parts += [nn.Linear(width if i else inputs, width), nn.ReLU()]
    model = nn.Sequential(*parts, nn.Linear(width, classes))
    return trained(model, torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(batch, inputs), torch.randint(classes, (batch,)))


def gpt(batch, seq, layers, width, heads, hidden, vocab):
    torch.manual_seed(0)
    model = GPT(layers, width, heads, hidden, vocab, seq)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids = torch.randint(vocab, (batch, seq + 1))
    return trained(model, optimizer, ids[:, :-1].contiguous(), ids[:, 1:].flatten())


def block(seq, width, heads, hidden):
    torch.manual_seed(0)
    model = Block(width, heads, hidden)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x, target = torch.randn(1, seq, width), torch.randn(1, seq, width)

    def step():
        loss = F.mse_loss(model(x), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step


def resnet(batch, channels, image, width, layers, classes):
    torch.manual_seed(0)
    parts = [nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    inner = width
    for stage in range(4):
        for i in range(layers):
            outer = width << stage
            parts.append(Basic(inner, outer, 2 if stage and not i else 1))
            inner = outer
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, classes))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return trained(model, optimizer, torch.randn(batch, channels, image, image), torch.randint(classes, (batch,)))


def kernels():
    """What PyTorch says of its libraries and the instructions that it chose."""
    told = [line.strip(" -").split(" (Git")[0] for line in torch.__config__.show().splitlines()]
    devices = [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    return "; ".join(devices + [line for line in told if line.startswith(("Intel(R)", "CPU capability"))])


def on_device(case):
    """A case that is asked for a graphics processor runs on CUDA where there is one."""

    def opened(graphics=False, **sizes):
        torch.set_default_device("cuda" if graphics and torch.cuda.is_available() else "cpu")
        return case(**sizes)

    return opened


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


serve(torch.__version__, kernels(), torch.get_num_threads(), {f.__name__: on_device(f) for f in (mlp, gpt, block, resnet)}, wait)
